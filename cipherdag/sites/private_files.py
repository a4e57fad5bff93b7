"""Private folders, and locks that keep a second process out."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cipherdag.errors import OutputError, SiteNotReadyError, writing
from cipherdag.protocol.durable_files import write_whole

START_LOCK = ".started"
"""Held by the process that serves a folder: a site's, or a coordinator's server."""
LOCK_WAIT_S = 20.0
LOCK_PAUSE_S = 0.1


class Inside:
    """The path of a file or folder in the folder at an object's ``path``."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, folder: Any, _: type | None = None) -> Path:
        return folder.path.joinpath(*self._parts)


def make_private_folder(path: Path, *, folders: Sequence[str], files: Mapping[str, str]) -> None:
    """Make a folder that only its owner may enter, with folders and files in it.

    OutputError where the folder exists and is not empty, or cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise OutputError(f"{path} is not empty", remedy="Choose a new folder.")
        path.chmod(0o700)
        for name in folders:
            (path / name).mkdir(mode=0o700)
        for name, text in files.items():
            write_whole(path / name, text)
    except OSError as error:
        raise OutputError(f"{path} cannot be made: {error.strerror}") from error


def lock(path: Path, *, wait_s: float = LOCK_WAIT_S) -> int:
    """Hold a lock on a file until this process ends or closes the returned descriptor.

    SiteNotReadyError where another process holds it for longer than ``wait_s`` seconds, or this
    system has no such locks, as Windows. OutputError where the file cannot be made.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        raise SiteNotReadyError(
            "sites and coordinators do not run on this system: it has no locks on files",
            remedy="Run them on Linux or macOS, or on Windows in WSL 2. Runs in one process, "
            "reports and checks of ledgers work here.",
        ) from None
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise SiteNotReadyError(
                    f"another process works in {path.parent}",
                    remedy="Stop the other one first; one process serves a folder.",
                ) from None
            time.sleep(LOCK_PAUSE_S)
        else:
            return descriptor


def is_locked(path: Path) -> bool:
    """True if a process holds the lock on a file now."""
    if not path.exists():
        return False
    try:
        os.close(lock(path, wait_s=0.0))
    except SiteNotReadyError:
        return True
    return False


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock for a while, without waiting for it; see `lock`."""
    descriptor = lock(path, wait_s=0.0)
    try:
        yield
    finally:
        os.close(descriptor)
