"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: str | Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Write a file beside its place and move it there, so that a full disk leaves what was.

    Args:
        path: The file; what a link to a file points at. A device or a pipe is written as it is.
        content: All of it; text in UTF-8.
        mode: Who may read and write it, less what the system's mask takes; by default its owner.

    Raises:
        OSError: It cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    place = Path(path)
    if place.exists() and not place.is_file():
        place.write_bytes(data)
        return
    place = place.resolve()
    temporary = place.with_name(f".cipherdag-{secrets.token_hex(8)}")  # is nobody's file
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)
