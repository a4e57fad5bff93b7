"""Whether something happens again and again, as connections that displace each other."""

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
        """It happens; whether that is the third time, or more, within a minute."""
        self._happened.append(self._clock())
        return len(self._happened) == TIMES and self._clock() - self._happened[0] <= WITHIN_S
