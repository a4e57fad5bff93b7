"""What a coordinator writes down of a session, so that a crash loses no round and repeats none.

A journal holds public parameters and sums only. After a crash the run goes on from it: finished
rounds are not asked again, and an unfinished one is asked again by the same bytes, to which the
sites give the same replies. So a crash makes no question be asked under another digest; only a
round that was given up is asked again, under the next number.

Leaks:
    Whoever reads the journal learns what the coordinator learnt: the sums of all rounds.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from cipherdag.errors import OutputError, writing
from cipherdag.protocol.messages import Invite
from cipherdag.protocol.progress import DropOut, RoundReport

if TYPE_CHECKING:
    from pathlib import Path


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="started"):
    """The session was named, before any site was asked; its identifier holds from then on."""

    session: bytes
    invite: Invite


class Opened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="opened"):
    """The session was set up; ``received`` are bytes by site."""

    transcript: bytes
    public_context: bytes
    n_variables: int
    received: dict[str, int]
    labels: tuple[int, ...] = ()


class GivenUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="given-up"):
    """A round ended without a sum; these sites go on, and those left since the last entry."""

    number: int
    present: tuple[int, ...]
    left: tuple[DropOut, ...] = ()


class Summed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="summed"):
    """A round's sum, as little-endian float64, the sites that go on, and the round's report."""

    content: bytes
    present: tuple[int, ...]
    values: bytes
    report: RoundReport


Entry = Started | Opened | GivenUp | Summed


class Journal:
    """Appends entries to a file, each on disk before the run goes on; one JSON object a line.

    Args:
        path: The file, made with mode 0600; entries already in it are read.

    Raises:
        OutputError: The file cannot be written, or is not a journal.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[Entry] = []
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "rb") as file:
                content = file.read()
        except OSError as error:
            raise OutputError(f"{path} cannot be opened: {error.strerror}") from error
        whole = content[: content.rfind(b"\n") + 1]
        try:
            self._entries = [msgspec.json.decode(line, type=Entry) for line in whole.splitlines()]
        except (msgspec.DecodeError, ValueError) as error:
            raise OutputError(f"{path} is not the journal of a run") from error
        if len(whole) < len(content):
            os.truncate(path, len(whole))  # the crash cut the last line short

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    def write(self, entry: Entry) -> None:
        """Append an entry and see it to the disk."""
        with writing(self._path), self._path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._entries.append(entry)


class Replay:
    """Takes a session up again from its journal's entries, oldest first.

    Attributes:
        started: How the session was named, or None where there is nothing to take up.
        opened: The set-up, or None where it was not finished.
    """

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._left = list(entries)
        self.started: Started | None = None
        self.opened: Opened | None = None
        if self._left:
            first = self._left.pop(0)
            if not isinstance(first, Started):
                raise OutputError("the journal does not begin with the start of a session")
            self.started = first
        if self._left and isinstance(self._left[0], Opened):
            self.opened = self._left[0]
            del self._left[0]

    def next_ended(self) -> GivenUp | Summed | None:
        """The next round that ended, or None where the journal does."""
        if not self._left:
            return None
        entry = self._left.pop(0)
        if not isinstance(entry, GivenUp | Summed):
            raise OutputError("the journal's entries are out of order")
        return entry
