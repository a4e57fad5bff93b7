"""What a coordinator writes down when a run starts, so that it can go on after a crash.

    runs/NAME/started.json      the plan
    runs/NAME/journal.jsonl     how far it came: see `cipherdag.protocol.journal`

Leaks:
    Nothing: parameters of the run only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import make_algorithm
from cipherdag.errors import OutputError, ParameterError, writing
from cipherdag.protocol.plan import Plan
from cipherdag.sites.private_files import write_private

STARTED_FILE = "started.json"
JOURNAL_FILE = "journal.jsonl"


class StartedRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run as it was started; ``source`` is what a saved ``run.toml`` says of it."""

    plan: Plan
    source: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> StartedRun:
        """The run of a folder under a coordinator's ``runs/``.

        Raises:
            OutputError: There is none, or it cannot be read.
        """
        try:
            return msgspec.json.decode((folder / STARTED_FILE).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError, ValueError) as error:
            raise OutputError(
                f"{folder} is not the folder of a run that a coordinator started",
                remedy="Name a folder under runs/ of the coordinator's folder.",
            ) from error

    def write(self, folder: Path) -> None:
        """Write it into the folder of the run.

        Raises:
            OutputError: The folder cannot be written.
        """
        text = msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
        with writing(folder):
            write_private(folder / STARTED_FILE, text)

    def make_algorithm(self) -> Algorithm[Any, Any]:
        """The algorithm with its parameters.

        Raises:
            OutputError: This version does not know them.
        """
        try:
            return make_algorithm(self.plan.algorithm, self.plan.parameters)
        except ParameterError as error:
            raise OutputError(
                f"the run was started with parameters of '{self.plan.algorithm}' that this version "
                "does not know"
            ) from error
