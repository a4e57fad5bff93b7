"""What a site keeps of a run: its plan, and every sum that was opened and checked here.

    runs/SESSION/plan.json      the plan
    runs/SESSION/sums.jsonl     a line for every step

From these the whole run can be gone through again at this site, without the coordinator: its result
is read from nothing else. ``session.jsonl`` has the session that the site is in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

import msgspec
import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import (
    MalformedMessageError,
    OutputError,
    SiteNotReadyError,
    UnreadableRunError,
    writing,
)
from cipherdag.pages.files import from_json
from cipherdag.protocol.durable_files import append_entries, read_entries, write_whole
from cipherdag.protocol.plan import Plan, check_session_digits

PLAN_FILE = "plan.json"
SUMS_FILE = "sums.jsonl"


class CheckedSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sum of one step: of which round, of which sites by position, as little-endian float64."""

    number: int
    participants: tuple[int, ...]
    values: bytes

    @property
    def array(self) -> FloatVector:
        """The sums, shape (number of values,)."""
        return np.frombuffer(self.values, dtype="<f8").astype(np.float64)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record of one run, in ``runs/SESSION`` of the site; OutputError if it is not written."""

    folder: Path

    def begin(self, plan: Plan) -> None:
        """Write the plan, before anything is asked of it."""
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / SUMS_FILE).unlink(missing_ok=True)
            write_whole(self.folder / PLAN_FILE, plan.dumps())

    def add(self, number: int, participants: tuple[int, ...], sums: FloatVector) -> None:
        """Append the sum of a step, and see it to the disk."""
        line = CheckedSum(number, participants, sums.astype("<f8").tobytes())
        append_entries(self.folder / SUMS_FILE, line)

    @classmethod
    def latest(cls, runs: Path, session: str = "") -> Self:
        """The record of the run that began last, or of one whose session starts so.

        ParameterError where no session is named so, OutputError where there is none, or several.
        """
        if session:
            check_session_digits(session)
        folders = sorted(
            runs.glob(f"{session}*/{PLAN_FILE}"), key=lambda path: path.stat().st_mtime
        )
        if not folders or (session and len(folders) > 1):
            raise OutputError(
                f"{len(folders)} runs of this site start with '{session}'"
                if session
                else "no run has taken place at this site",
                remedy="See `cipherdag site status`, which lists them.",
            )
        return cls(folders[-1].parent)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the sums as they lie there, as the ledger has it where a run is closed."""
        path = self.folder / SUMS_FILE
        return sha256(path.read_bytes() if path.exists() else b"").digest()

    def read(self) -> tuple[Plan, list[CheckedSum]]:
        """The plan, and the sums in the order of its steps; OutputError if a file is unreadable."""
        try:
            plan = Plan.loads((self.folder / PLAN_FILE).read_text("utf-8"))
            sums = self.folder / SUMS_FILE
            lines = sums.read_bytes().splitlines() if sums.exists() else []
            return plan, [from_json(line, CheckedSum) for line in lines]
        except (OSError, ValueError, MalformedMessageError) as error:
            raise UnreadableRunError(f"{self.folder} holds no run that can be read") from error


Stamps = Sequence[tuple[int, int]]
"""Times of change and sizes of some files."""


class Opened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="opened"):
    """A run was begun, from files of these times and sizes."""

    files: tuple[tuple[int, int], ...]


class Answered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="answered"):
    """One message of the coordinator, what was drawn for its answer in order, and the answer."""

    operation: str
    message: bytes
    draws: tuple[bytes, ...]
    reply: bytes

    def __repr__(self) -> str:
        return f"Answered({self.operation}, {len(self.draws)} draws)"


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The session that a site is in, written down so that the site goes on after it was killed.

    ``session.jsonl`` has the files that the run was opened from; then a line for every answer: what
    was asked, what was drawn at random for the answer, and the answer. It is on the disk before the
    answer leaves, so the site gives no second answer to what it answered once. A site that starts
    again answers the same messages with the same draws and holds the same keys then. Whoever reads
    the file, mode 0600, while the run lasts has the site's keys of this run. OutputError where it
    cannot be written.
    """

    path: Path

    def begin(self, files: Stamps) -> None:
        """Write down that a run begins; what stood there of another one goes."""
        self.forget()
        append_entries(self.path, Opened(tuple(files)))

    def add(self, answered: Answered) -> None:
        """Write an answer down before it leaves."""
        append_entries(self.path, answered)

    def end(self, files: Stamps, last: Answered) -> None:
        """Leave nothing but the last answer of a run, without what was drawn."""
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
        """The files' times and sizes, and all answers; SiteNotReadyError if damaged."""
        damaged = SiteNotReadyError(
            f"{self.path.name} is damaged", remedy="Start a new run; this one cannot go on."
        )
        entries = read_entries(self.path, Opened | Answered, damaged)
        files = [entry.files for entry in entries if isinstance(entry, Opened)]
        answered = [entry for entry in entries if isinstance(entry, Answered)]
        return (files[0], answered) if files else ((), [])
