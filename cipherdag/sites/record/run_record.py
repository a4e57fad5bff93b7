"""What a site keeps of a run: its plan, and every sum that was opened and checked here.

    runs/SESSION/plan.json      the plan
    runs/SESSION/sums.jsonl     a line for every step

From these the whole run can be gone through again at this site, without the coordinator: its result
is read from nothing else.

Leaks:
    Nothing: the record stays at the site. It holds sums, which every site of the run has.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Self

import msgspec
import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import MalformedMessageError, OutputError, writing
from cipherdag.pages.files import from_json
from cipherdag.protocol.durable_files import append_entries, write_whole
from cipherdag.protocol.plan import Plan, check_session_digits

PLAN_FILE = "plan.json"
SUMS_FILE = "sums.jsonl"


class CheckedSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sum of one step.

    Attributes:
        number: The round that it was opened in.
        participants: Positions of the sites whose answers it covers.
        values: Little-endian float64.
    """

    number: int
    participants: tuple[int, ...]
    values: bytes

    @property
    def array(self) -> FloatVector:
        """The sums, shape (number of values,)."""
        return np.frombuffer(self.values, dtype="<f8").astype(np.float64)


class RunRecord:
    """The record of one run.

    Args:
        folder: ``runs/SESSION`` of the site.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, plan: Plan) -> None:
        """Write the plan, before anything is asked of it.

        Raises:
            OutputError: The folder cannot be written.
        """
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / SUMS_FILE).unlink(missing_ok=True)
            write_whole(self.folder / PLAN_FILE, plan.dumps())

    def add(self, number: int, participants: tuple[int, ...], sums: FloatVector) -> None:
        """Append the sum of a step, and see it to the disk.

        Raises:
            OutputError: The file cannot be written.
        """
        line = CheckedSum(number, participants, sums.astype("<f8").tobytes())
        append_entries(self.folder / SUMS_FILE, line)

    @classmethod
    def latest(cls, runs: Path, session: str = "") -> Self:
        """The record of the run that began last, or of one whose session starts so.

        Raises:
            ParameterError: This is not how a session is named.
            OutputError: There is none, or more than one.
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
        """The plan, and the sums in the order of its steps.

        Raises:
            OutputError: A file cannot be read.
        """
        try:
            plan = Plan.loads((self.folder / PLAN_FILE).read_text("utf-8"))
            sums = self.folder / SUMS_FILE
            lines = sums.read_bytes().splitlines() if sums.exists() else []
            return plan, [from_json(line, CheckedSum) for line in lines]
        except (OSError, ValueError, MalformedMessageError) as error:
            raise OutputError(f"{self.folder} holds no run that can be read") from error
