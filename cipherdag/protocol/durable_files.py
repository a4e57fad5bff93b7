"""Files and lines that are on the disk whole, or not at all; a file is its owner's alone."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from cipherdag.errors import CipherdagError, writing
from cipherdag.pages.files import from_json, replace_file

OWNER_ONLY = 0o600
OPEN = 0o644
"""Mode of a file that is made to be given to others: they may read it, and nobody may write it."""


def write_whole(path: str | Path, content: str | bytes, *, mode: int = OWNER_ONLY) -> None:
    """Write a file as `replace_file` does; raises OutputError where it cannot be written."""
    with writing(path):
        replace_file(path, content, mode=mode)


def make_folder(path: Path) -> None:
    """Make a folder for its owner alone, and those missing above it, or raise OutputError."""
    with writing(path):
        for missing in reversed([each for each in (path, *path.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(exist_ok=True)  # raises where a file is in its place


def append(path: Path, lines: bytes) -> None:
    """Append lines to a file of mode 0600, on the disk whole or, with an OutputError, not."""
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


def append_entries(path: Path, *entries: msgspec.Struct) -> None:
    """Append entries as `append` does, each a JSON object on a line."""
    append(path, b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))


def read_entries(path: Path, kind: Any, unread: CipherdagError) -> list[Any]:
    """The entries of a file of `append_entries`, of one type, oldest first; none without a file.

    A last line that a crash cut short is cut off the file: what it records had not left. Raises
    ``unread`` where the file cannot be read, or a line before it is no entry of this type.
    """
    try:
        content = path.read_bytes() if path.exists() else b""
        end = content.rfind(b"\n") + 1
        entries = [from_json(line, kind) for line in content[:end].splitlines()]
        if end < len(content):
            os.truncate(path, end)
    except (OSError, ValueError) as error:
        raise unread from error
    return entries
