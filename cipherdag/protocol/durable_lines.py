"""Lines appended to a file: whole and on the disk, or not at all.

Leaks:
    Nothing: the file is its owner's alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cipherdag.errors import writing

OWNER_ONLY = 0o600


def append(path: Path, lines: bytes) -> None:
    """Append lines to a file, made with mode 0600 where there is none, and see them to the disk.

    Raises:
        OutputError: The file cannot be written, as on a full disk; it ends where it ended before.
    """
    with writing(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            before = os.fstat(descriptor).st_size
            try:
                left = memoryview(lines)
                while left:
                    left = left[file.write(left) :]
                os.fsync(descriptor)
            except OSError:
                with suppress(OSError):  # a line cut short would spoil the one after it
                    os.ftruncate(descriptor, before)
                raise
