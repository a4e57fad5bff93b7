"""An object that holds a secret cannot be shown, copied or pickled.

Nor does a process that holds one leave its memory behind when it crashes: `leave_no_core`.

Leaks:
    ``repr`` shows the type and the size of the secret; nothing shows its content.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import NoReturn


class Secret(ABC):
    """Keeps its secret in slots, so that there is no ``__dict__`` to dump."""

    __slots__ = ()

    @property
    @abstractmethod
    def secret_size(self) -> int:
        """Number of secret bytes."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self.secret_size} secret bytes>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds a secret: it is not copied or pickled")


def open_to_others(mode: int) -> bool:
    """Whether a file of this mode gives other users any right; False where POSIX is not."""
    return os.name == "posix" and bool(mode & (stat.S_IRWXG | stat.S_IRWXO))


def leave_no_core() -> None:
    """Let a crash of this process, or of one that it starts, write no memory to a disk.

    It does nothing where the platform knows no such limit.
    """
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
