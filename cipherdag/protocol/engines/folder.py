"""One direction of a shared folder: one end writes files, the other reads them.

    1795698912345-4816-9f86d081….sealed      number, length in bytes, SHA-256 of the content

A file is sealed under a key of both ends for its direction, site, study and number, so a file that
somebody renames to another number does not open. It is written under a temporary name, synced to
disk and renamed. A file that arrived in part is waited for, and refused once it has not changed for
`STALE_S`. Whoever may write into the folder can delete files and so stop a run. Other files cannot
stop it: each is refused by a fixed sentence, once, and stays unread.

Leaks:
    Whoever reads the folder learns how many messages pass, when, and how long they are.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from cipherdag.errors import KeyAgreementError, MalformedMessageError, PrivacyError, ReplayError
from cipherdag.privacy.keys.pairkeys import SEAL_BYTES, PairKey, SealingKey, sealing_keys
from cipherdag.privacy.secrecy import Secret
from cipherdag.privacy.wire import transcript
from cipherdag.protocol.engines.channel import FRAME_BYTES

TO_SITE: Final = "to-site"
TO_COORDINATOR: Final = "to-coordinator"

MOST_FILES: Final = 4096  # most files of one folder that are looked at; two are in use
MOST_BYTES: Final = FRAME_BYTES + SEAL_BYTES
STALE_S: Final = 60.0
AGAIN_S: Final = 1.0
"""Seconds between two readings of an incomplete file whose `Stamp` stays the same."""

ODD_NAME: Final = "a file with a name that no message has"
NOT_PLAIN: Final = "what is no plain file: a link, a folder, a device"
TOO_LONG: Final = "a file longer than a message may be"
OVERLONG: Final = "a file longer than its name says"
CUT_SHORT: Final = "a file that holds less than its name says, and does not grow"
ALTERED: Final = "a file that is not what its name says"
NOT_SEALED: Final = "a file that the other end did not seal for here"
RECEIVED: Final = "a file that was received before, or comes out of order"
TOO_MANY: Final = "more files than are looked at"

_NAME = re.compile(r"([0-9]{13})-([0-9]{1,10})-([0-9a-f]{64})\.sealed")
_TEMPORARY = (".", "~")
_UNFINISHED = (".tmp", ".part", ".partial", ".filepart")
_SENDING = ".sending"
_SHOWN = 120
_NO_LINK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)  # Python closes it in programs it starts
_OF_A_FOLDER = _NO_LINK | getattr(os, "O_DIRECTORY", 0)
_OF_A_FILE = _NO_LINK | getattr(os, "O_NONBLOCK", 0)
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)

Stamp = tuple[int, int, int, int]  # st_mode, st_size, st_mtime_ns, st_ino


class DirectionKey(Secret):
    """Seals what goes in one direction, `TO_SITE` or `TO_COORDINATOR`, between two ends."""

    __slots__ = ("_about", "_nonces", "_seal")

    def __init__(self, pair_key: PairKey, direction: str, *, study: str, site: str) -> None:
        self._about = transcript(direction.encode(), study.encode(), site.encode())
        self._seal: SealingKey = sealing_keys([pair_key], b"folder " + direction.encode())[0]
        self._nonces = PairKey(pair_key.derive(b"folder nonces", self._about))

    def seal(self, number: int, content: bytes) -> bytes:
        """Sealed content: the same bytes for the same content and number, sent again after a crash.

        The nonce is a keyed digest of both, so no nonce serves two contents.
        """
        bound_to = transcript(self._about, number.to_bytes(8, "big"))
        nonce = self._nonces.derive(b"nonce", bound_to, hashlib.sha256(content).digest())[:12]
        return self._seal.seal(content, bound_to, nonce)

    def unseal(self, number: int, sealed: bytes) -> bytes:
        """Undo `seal`; raises KeyAgreementError where it was altered or is meant for elsewhere."""
        return self._seal.unseal(sealed, transcript(self._about, number.to_bytes(8, "big")))


@dataclass(frozen=True, slots=True)
class Sender:
    """Writes into one folder, and leaves only its latest message there."""

    folder: Path
    key: DirectionKey

    def send(self, number: int, content: bytes) -> None:
        """Put a message there, whole and on the disk, in place of the one before; or an OSError."""
        sealed = self.key.seal(number, content)
        name = f"{number:013}-{len(sealed)}-{hashlib.sha256(sealed).hexdigest()}.sealed"
        temporary = f"{_SENDING}-{name}"
        with _opened(self.folder) as where:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=where)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(temporary, flags, 0o644, dir_fd=where), "wb") as file:
                with suppress(OSError):  # others may read what they cannot open
                    os.fchmod(file.fileno(), 0o644)
                file.write(sealed)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=where, dst_dir_fd=where)
            _sync(where)
            for other in os.listdir(where):  # noqa: PTH208 - a descriptor
                if other != name and (_NAME.fullmatch(other) or other.startswith(_SENDING)):
                    with suppress(OSError):
                        os.unlink(other, dir_fd=where)


class Receiver:
    """Reads what the other end writes into one folder.

    ``refused`` gets a fixed sentence about what is refused, once, and the file's name. A file that
    is not complete and does not change for ``stale_s`` seconds is refused.
    """

    def __init__(
        self,
        folder: Path,
        key: DirectionKey,
        refused: Callable[[str, str], None],
        *,
        stale_s: float = STALE_S,
    ) -> None:
        self._folder = folder
        self._key = key
        self._refused = refused
        self._stale_s = stale_s
        self._judged: dict[str, tuple[Stamp, str]] = {}  # and the sentence, or ""
        self._incomplete: dict[str, tuple[Stamp, float, float]] = {}  # unchanged since, last read
        self._crowded = False
        self._leftovers = True  # what an earlier process has received may still lie there

    def next(self, after: int) -> tuple[int, bytes] | None:
        """Number and content of the first message after a number; None without one; or OSError."""
        with _opened(self._folder) as where, os.scandir(where) as entries:
            looked_at = islice(entries, MOST_FILES + 1)
            stamps = {each.name: stamp for each in looked_at if (stamp := _stamp(each))}
            self._judged = {name: at for name, at in self._judged.items() if name in stamps}
            self._incomplete = {k: v for k, v in self._incomplete.items() if k in stamps}
            if len(stamps) > MOST_FILES and not self._crowded:
                self._refused(TOO_MANY, str(MOST_FILES))
            self._crowded = len(stamps) > MOST_FILES
            read = (
                self._read(where, name, stamp, after)
                for name, stamp in sorted(stamps.items())
                if self._judged.get(name, (None, ""))[0] != stamp
                and not name.startswith(_TEMPORARY)
                and not name.endswith(_UNFINISHED)
            )
            message = next((each for each in read if each is not None), None)
            self._leftovers = False
            return message

    def _read(self, where: int, name: str, stamp: Stamp, after: int) -> tuple[int, bytes] | None:
        """A file's number and message; None where it is refused, or waited for."""
        try:
            said = _said_by(name, stamp)
            content = self._arrived(where, name, said, stamp)
            if content is None:
                return None
            number, message = said.number, self._unsealed(said.number, content)
            if number < after and not self._leftovers:
                raise ReplayError(RECEIVED)
        except PrivacyError as error:
            _, said_before = self._judged.get(name, (stamp, ""))
            self._judged[name] = stamp, error.message
            self._incomplete.pop(name, None)
            if error.message != said_before:  # a file that is still written is judged again
                self._refused(error.message, ascii(name)[:_SHOWN])
            return None
        if number > after:
            return number, message
        self._judged[name] = stamp, ""  # the last one, which its sender takes away with the next
        return None

    def _arrived(self, where: int, name: str, said: _Said, stamp: Stamp) -> bytes | None:
        """The content of the length and digest that a name says; None while it is waited for.

        MalformedMessageError where it is another content, and did not change for ``stale_s``.
        """
        now = time.monotonic()
        before, since, read = self._incomplete.get(name, (stamp, now, -AGAIN_S))
        since = since if before == stamp else now
        stale = now - since >= self._stale_s
        if before == stamp and now - read < AGAIN_S and not stale:
            return None
        content = _content(where, name, said.length)
        if len(content) == said.length and hashlib.sha256(content).hexdigest() == said.digest:
            self._incomplete.pop(name, None)
            return content
        if stale:
            raise MalformedMessageError(CUT_SHORT if len(content) < said.length else ALTERED)
        self._incomplete[name] = stamp, since, now
        return None

    def _unsealed(self, number: int, content: bytes) -> bytes:
        try:
            return self._key.unseal(number, content)
        except KeyAgreementError:
            raise KeyAgreementError(NOT_SEALED) from None


def is_message(name: str) -> bool:
    """Whether a file's name is one that a message has."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class _Said:
    """What a file's name says of it."""

    number: int
    length: int
    digest: str


def _said_by(name: str, stamp: Stamp) -> _Said:
    """What a name says; raises MalformedMessageError where no file can become that."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise MalformedMessageError(ODD_NAME)
    said = _Said(int(parts[1]), int(parts[2]), parts[3])
    if said.length > MOST_BYTES:
        raise MalformedMessageError(TOO_LONG)
    if not stat.S_ISREG(stamp[0]):
        raise MalformedMessageError(NOT_PLAIN)
    if stamp[1] > said.length:
        raise MalformedMessageError(OVERLONG)
    return said


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A folder, which is no link, so that nothing is written or read elsewhere."""
    where = os.open(folder, _OF_A_FOLDER)
    try:
        yield where
    finally:
        os.close(where)


def _content(where: int, name: str, length: int) -> bytes:
    """Up to ``length`` bytes of a plain file; none if it has holes, is another by now, or gone."""
    try:
        with os.fdopen(os.open(name, _OF_A_FILE, dir_fd=where), "rb") as file:
            about = os.fstat(file.fileno())
            # a hole takes memory here and no disk there; nothing sealed has one
            whole = about.st_size and os.lseek(file.fileno(), 0, os.SEEK_HOLE) == about.st_size
            if not stat.S_ISREG(about.st_mode) or not whole:
                return b""
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            return file.read(length)
    except OSError:
        return b""


def _stamp(entry: os.DirEntry[str]) -> Stamp | None:
    """The `Stamp`, by which a changed file is noticed; None if the file is gone."""
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return about.st_mode, about.st_size, about.st_mtime_ns, about.st_ino


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:  # some shares do not know it
        if error.errno not in _NOT_SYNCED:
            raise
