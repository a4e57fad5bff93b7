"""Notices what happens three times within a minute, as when connections displace each other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

TIMES = 3
WITHIN_S = 60.0


class Again:
    """Counts what happens within a time.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._happened: deque[float] = deque(maxlen=TIMES)

    def again(self) -> bool:
        """Count one occurrence; whether it is at least the third within a minute."""
        self._happened.append(self._clock())
        return len(self._happened) == TIMES and self._clock() - self._happened[0] <= WITHIN_S
