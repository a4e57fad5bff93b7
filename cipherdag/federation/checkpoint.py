"""Checkpoints: what is written down while a run goes on, so that a stopped run can be resumed.

Of a run in this process, until its result is saved into FOLDER:

    FOLDER/unfinished/run.toml, schema.toml   where the data came from, and their schema
    FOLDER/unfinished/begun.json              algorithm, parameters and a digest of the data
    FOLDER/unfinished/rounds.jsonl            each round's sum, and what had left the sites by then
    FOLDER/unfinished/SITE.pem                the key that signs SITE's ledger

Of a run of a coordinator:

    runs/NAME/started.json                    the plan
    runs/NAME/journal.jsonl                   how far it came: see `cipherdag.protocol.journal`

The keys of a session are never written down. A run in this process that is resumed begins a new
session over the questions that are left: no finished round is computed again.

Leaks:
    Whoever reads ``unfinished`` learns the sums of all rounds, and can sign for these sites'
    ledgers, which other runs do not know. ``started.json`` has parameters of the run only.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import make_algorithm
from cipherdag.errors import OutputError, ParameterError, UnreadableRunError, writing
from cipherdag.federation.site import Site
from cipherdag.pages.files import from_json
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.program.replay import Outcome
from cipherdag.program.run import FinishedRun
from cipherdag.program.versions import computed_with
from cipherdag.protocol.durable_files import append_entries, read_entries, write_whole
from cipherdag.protocol.journal import Entry, Summed
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.progress import RoundReport
from cipherdag.results.folder import UNFINISHED, run_toml
from cipherdag.sites.compute.noise import row_bytes
from cipherdag.sites.record.ledger import Ledger, read_releases

BEGUN_FILE = "begun.json"
ROUNDS_FILE = "rounds.jsonl"
STARTED_FILE = "started.json"


class Beginning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs that have to be equal for a run to resume; ``data`` digests all rows."""

    algorithm: str
    parameters: dict[str, Any]
    protection: str
    seed: int
    versions: dict[str, str]
    data: str


class CheckpointRound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A round's sum, None if the run stopped first, and ledger lines since the last round."""

    releases: dict[str, tuple[str, ...]]
    summed: Summed | None = None


@dataclass(slots=True)
class Checkpoint:
    """The rounds of a run in this process; a `Session` writes into it as into its journal.

    Attributes:
        ledgers: Each site's ledger, which goes on where it ended.
        earlier: The rounds that had ended when this was read.
    """

    folder: Path
    identities: Mapping[str, SigningIdentity] = field(repr=False)
    ledgers: dict[str, Ledger] = field(repr=False, default_factory=dict)
    rounds: list[CheckpointRound] = field(repr=False, default_factory=list)
    earlier: tuple[Summed, ...] = field(repr=False, default=())
    entries: tuple[Entry, ...] = ()  # none: a session with this as its journal starts anew

    @property
    def reports(self) -> tuple[RoundReport, ...]:
        """The reports of the rounds of `earlier`."""
        return tuple(each.report for each in self.earlier)

    def write(self, entry: Entry) -> None:
        """Keep a round that ended, or raise OutputError; a new session needs no other entries."""
        if isinstance(entry, Summed):
            self._append(entry)

    def stopped(self) -> None:
        """Keep what left the sites after the last round that ended."""
        if any(self._new_releases().values()):
            self._append(None)

    def whole(self, done: FinishedRun[Outcome]) -> FinishedRun[Outcome]:
        """A run as if it had never been stopped: all rounds, and all that left the sites."""
        if not self.earlier:
            return done
        return replace(
            done,
            bytes_sent_per_site={
                name: sum(release.bytes for release in read_releases(ledger.lines))
                for name, ledger in self.ledgers.items()
            },
            seconds=done.seconds + sum(report.seconds for report in self.reports),
        )

    def _new_releases(self) -> dict[str, tuple[str, ...]]:
        return {
            name: ledger.lines[sum(len(each.releases[name]) for each in self.rounds) :]
            for name, ledger in self.ledgers.items()
        }

    def _append(self, summed: Summed | None) -> None:
        line = CheckpointRound(self._new_releases(), summed)
        append_entries(self.folder / UNFINISHED / ROUNDS_FILE, line)
        self.rounds.append(line)


def open_checkpoint(
    sites: Sequence[Site],
    protection: str,
    algorithm: Algorithm[Any, Any],
    seed: int,
    folder: Path,
    source: Mapping[str, Any],
) -> Checkpoint:
    """A run's checkpoint in a folder, or a new one; OutputError where it keeps another run."""
    begun = Beginning(
        algorithm=algorithm.name,
        parameters=msgspec.to_builtins(algorithm),
        protection=protection,
        seed=seed,
        versions=computed_with(),
        data=data_digest(sites),
    )
    inside, names = folder / UNFINISHED, [site.name for site in sites]
    if not (inside / BEGUN_FILE).exists():
        schema = sites[0].table.schema.dumps()
        texts = {"run.toml": run_toml(source), "schema.toml": schema}
        _make(inside, begun, names, texts)
    _check_same(_read(inside / BEGUN_FILE), begun, folder)
    rounds = read_rounds(folder)
    identities = {name: SigningIdentity.load(inside / f"{name}.pem") for name in names}
    lines = {name: [line for each in rounds for line in each.releases[name]] for name in names}
    ledgers = {n: Ledger(n, key, lines=lines[n]) for n, key in identities.items()}
    earlier = tuple(each.summed for each in rounds if each.summed is not None)
    return Checkpoint(folder, identities, ledgers, rounds, earlier)


def read_rounds(folder: Path) -> list[CheckpointRound]:
    """The saved rounds of a run, oldest first, without a truncated last line; or an OutputError."""
    path = folder / UNFINISHED / ROUNDS_FILE
    unread = UnreadableRunError(f"{path} does not hold the rounds of a run")
    return read_entries(path, CheckpointRound, unread)


def data_digest(sites: Sequence[Site]) -> str:
    """SHA-256 over all sites' names, schemas and rows, in hexadecimal."""
    state = hashlib.sha256(b"cipherdag kept run")
    for site in sites:
        table = site.table
        for content in (site.name.encode(), table.schema.canonical()):
            state.update(len(content).to_bytes(8, "big") + content)
        patients = () if table.patients is None else (table.patients,)
        for array in (table.codes, table.values, table.interventions, *patients):
            for part in row_bytes(array):
                state.update(part)
    return state.hexdigest()


def _check_same(earlier: Beginning, begun: Beginning, folder: Path) -> None:
    """Refuse to go on with another run than the one that is kept."""
    # as the file has it: parameters may hold tuples, which are read back as lists
    now = msgspec.json.decode(msgspec.json.encode(begun), type=Beginning)
    for name in Beginning.__struct_fields__:
        if getattr(earlier, name) != getattr(now, name):
            raise OutputError(
                f"{folder} keeps a run that was begun with other {name}",
                remedy="Go on with what it was begun with, or begin anew with --force.",
            )


def _make(inside: Path, begun: Beginning, sites: Sequence[str], texts: Mapping[str, str]) -> None:
    with writing(inside):
        shutil.rmtree(inside, ignore_errors=True)  # of a run that was stopped as it began
        inside.mkdir(mode=0o700, parents=True)
    for name in sites:
        SigningIdentity.generate().save(inside / f"{name}.pem")
    for file, text in texts.items():
        write_whole(inside / file, text)
    write_whole(inside / BEGUN_FILE, msgspec.json.encode(begun).decode())


def _read(path: Path) -> Beginning:
    try:
        return from_json(path.read_bytes(), Beginning)
    except (OSError, ValueError) as error:
        raise UnreadableRunError(f"{path} does not say what run was begun") from error


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
            return from_json((folder / STARTED_FILE).read_bytes(), cls)
        except (OSError, ValueError) as error:
            raise OutputError(
                f"{folder} is not the folder of a run that a coordinator started",
                remedy="Name a folder under runs/ of the coordinator's folder.",
            ) from error

    def write(self, folder: Path) -> None:
        """Write it into the folder of the run; OutputError if the folder cannot be written."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
        with writing(folder):
            write_whole(folder / STARTED_FILE, text)

    def make_algorithm(self) -> Algorithm[Any, Any]:
        """The algorithm with its parameters; OutputError if this version does not know them."""
        try:
            return make_algorithm(self.plan.algorithm, self.plan.parameters)
        except ParameterError as error:
            raise OutputError(
                f"the run was started with parameters of '{self.plan.algorithm}' that this version "
                "does not know",
                remedy="Start a new run; this version asks other questions.",
            ) from error
