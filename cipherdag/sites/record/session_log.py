"""The session that a site is in, written down so that the site goes on after it was killed.

    session.jsonl       the files that the run was opened from; then a line for every answer

A line holds what was asked, what was drawn at random for the answer, and the answer. It is on the
disk before the answer leaves, so the site gives no second answer to what it answered once. A site
that starts again answers the same messages with the same draws and holds the same keys then.

Leaks:
    Nothing: the file stays at the site, mode 0600. Whoever reads it while the run lasts has the
    site's keys of this run; of a run that ended it holds the last answer alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cipherdag.errors import SiteNotReadyError, writing
from cipherdag.protocol.durable_files import append_entries, read_entries

Stamps = Sequence[tuple[int, int]]
"""Times of change and sizes of some files."""


class Opened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="opened"):
    """A run was begun, from files of these times and sizes."""

    files: tuple[tuple[int, int], ...]


class Answered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="answered"):
    """One message of the coordinator, and this site's answer to it.

    Attributes:
        operation: What it was sent for.
        message: The message.
        draws: What was drawn at random for the answer, in order.
        reply: The answer, or the refusal.
    """

    operation: str
    message: bytes
    draws: tuple[bytes, ...]
    reply: bytes

    def __repr__(self) -> str:
        return f"Answered({self.operation}, {len(self.draws)} draws)"


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The file of one site."""

    path: Path

    def begin(self, files: Stamps) -> None:
        """Write down that a run begins; what stood there of another one goes.

        Raises:
            OutputError: The file cannot be written.
        """
        self.forget()
        append_entries(self.path, Opened(tuple(files)))

    def add(self, answered: Answered) -> None:
        """Write an answer down before it leaves.

        Raises:
            OutputError: The file cannot be written.
        """
        append_entries(self.path, answered)

    def end(self, files: Stamps, last: Answered) -> None:
        """Leave nothing but the last answer of a run, without what was drawn.

        Raises:
            OutputError: The file cannot be written.
        """
        temporary = self.path.with_suffix(".new")
        with writing(temporary):
            temporary.unlink(missing_ok=True)
        said = msgspec.structs.replace(last, draws=())
        append_entries(temporary, Opened(tuple(files)), said)
        with writing(self.path):
            temporary.replace(self.path)

    def forget(self) -> None:
        """Delete the file."""
        with writing(self.path):
            self.path.unlink(missing_ok=True)

    def read(self) -> tuple[Stamps, list[Answered]]:
        """The files' times and sizes, and all answers; none where no run was begun.

        Raises:
            SiteNotReadyError: The file is not what this site wrote.
        """
        try:  # an answer that a crash cut short did not leave
            entries = read_entries(self.path, Opened | Answered)
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(f"{self.path.name} is damaged") from error
        files = [entry.files for entry in entries if isinstance(entry, Opened)]
        answered = [entry for entry in entries if isinstance(entry, Answered)]
        return (files[0], answered) if files else ((), [])
