"""A federation of real sites: the same run as in one process, over the study's engine.

Leaks:
    The coordinator knows variables by identifier only; names stay at the sites.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from cipherdag.deployment.study_engine import study_engine
from cipherdag.errors import (
    CohortError,
    DifferencingError,
    OutputError,
    PolicyRefusedError,
    ProtectionError,
)
from cipherdag.federation.one_run import FinishedRun, Outcome, carry_out
from cipherdag.federation.started_run import JOURNAL_FILE, StartedRun
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import Member, Protection
from cipherdag.protocol.session import Session
from cipherdag.protocol.transcript import TRANSCRIPT_FILE, TranscribingEngine
from cipherdag.sites.policy.approvals import AWAITS
from cipherdag.sites.private_files import locked
from cipherdag.sites.study.signed_result import sign_result

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from pathlib import Path

    from cipherdag.algorithms.algorithm import Algorithm, Facts
    from cipherdag.deployment.coordinator_folder import CoordinatorFolder
    from cipherdag.protocol.engines.engine import Engine
    from cipherdag.protocol.progress import RoundReport
    from cipherdag.questions.question import FloatVector, Question
    from cipherdag.results.run import Run
    from cipherdag.sites.study.study import Study

APPROVAL_PAUSE_S = 2.0
RUN_LOCK = ".running"
RESULT_FILE = "result.signed.json"


@dataclass(frozen=True, slots=True)
class ConnectedFederation:
    """The sites of a coordinator's study; make one with `Federation.connect`.

    Attributes:
        folder: The coordinator's folder.
        protection: ``masking`` or ``bfv``; ``none`` only if study and every site allow it.
        timeout_s: Seconds to wait for the slowest site in a step of a round.
        start_s: Seconds that server and sites may take to come up.
        approval_s: Seconds to wait for sites whose people approve every run.
    """

    folder: CoordinatorFolder
    protection: Protection = "masking"
    timeout_s: float = 600.0
    start_s: float = 30.0
    approval_s: float = 0.0

    @property
    def study(self) -> Study:
        """The study as it stands."""
        return self.folder.study()

    def run(
        self,
        algorithm: Algorithm[Any, Any],
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        begun: Callable[[Path], None] | None = None,
    ) -> Run:
        """Run one algorithm over all sites of the study.

        A transcript of what arrived, a journal and a signed result for the sites are written to
        a new folder under ``runs/`` of the coordinator.

        Args:
            algorithm: Its parameters, such as ``FedPC(alpha=0.01)``.
            seed: Seed of everything that draws at random in the algorithm.
            progress: Called after every round.
            source: What a saved ``run.toml`` says of the run.
            begun: Told the run's folder, before any site is asked; see `resume`.

        Returns:
            The result, with identifiers "1", "2", ... instead of names and without ledgers, which
            stay at the sites; `Result.heads` tells where they ended.

        Raises:
            CohortError: The study has fewer sites than it asks for.
            SchemaError: FedCMFS, and the schema marks no label.
            ProtectionError: The study does not allow the protection.
            PrivacyError: A site refused, or a message was altered.
            SiteNotReadyError: A site is not ready.
            SiteUnreachableError: The server or too many sites do not answer.
        """
        self._check(self.study, self.protection)
        folder = self._new_run()
        started = StartedRun(
            algorithm=algorithm.name,
            parameters=msgspec.to_builtins(algorithm),
            protection=self.protection,
            seed=seed,
            source=dict(source or {}),
        )
        started.write(folder)
        if begun is not None:
            begun(folder)
        return self._carry_on(folder, started, progress)

    def resume(self, folder: Path, *, progress: Callable[[RoundReport], None] | None = None) -> Run:
        """Go on with a run whose coordinator crashed, or that stopped for want of sites.

        Rounds that ended are not asked again. The one that was under way is asked again by the
        same bytes, to which the sites give the same replies. A site that was restarted since holds
        no keys of the run: it counts as one that left.

        Args:
            folder: The run's folder under ``runs/``.
            progress: Called after every round that ends from now on.

        Raises:
            OutputError: The folder is no run's, the run has ended, or it was started over other
                sites than the study now has.
            CipherdagError: As `run`.
        """
        started = StartedRun.read(folder)
        if (folder / RESULT_FILE).exists():
            raise OutputError(f"the run in {folder} has ended", remedy="Its result lies there.")
        self._check(self.study, started.protection)
        return self._carry_on(folder, started, progress)

    def _carry_on(
        self, folder: Path, started: StartedRun, progress: Callable[[RoundReport], None] | None
    ) -> Run:
        """A run from its journal on, which is empty for a new one."""
        with self._reached(folder) as (study, engine):
            return self.learn(study, engine, folder, started, progress)

    def learn(
        self,
        study: Study,
        engine: Engine,
        folder: Path,
        started: StartedRun,
        progress: Callable[[RoundReport], None] | None,
    ) -> Run:
        """The run over an engine that reaches the sites; `run` and `resume` bring one up."""
        algorithm = started.make_algorithm()
        done = self._carry_out(study, engine, folder, started, algorithm.ask, progress)
        result = done.result(
            algorithm,
            protection=started.protection,
            identifiers={name: name for name in done.names},
            source=started.source,
        )
        self._write(folder, study, result)
        return result

    def ask(
        self,
        name: str,
        questions: Callable[[Facts], Generator[Question, FloatVector, Outcome]],
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
    ) -> FinishedRun[Outcome]:
        """Ask questions of your own, as `Federation.ask` does; names stay at the sites.

        A transcript of what arrived and a journal are written to a new folder under ``runs/``;
        such a run cannot be resumed.

        Args:
            name: What the run is called; every site's policy must allow it.
            questions: Called with the facts of the session, whose names are identifiers.
            seed: What the facts say of it.
            progress: Called after every round.

        Raises:
            CipherdagError: As `run`.
        """
        self._check(self.study, self.protection)
        started = StartedRun(name, {}, self.protection, seed, {})
        with self._reached(folder := self._new_run()) as (study, engine):
            return self._carry_out(study, engine, folder, started, questions, progress)

    @contextmanager
    def _reached(self, folder: Path) -> Iterator[tuple[Study, Engine]]:
        """The study, and an engine that reaches its sites and transcribes what they send."""
        study = self.study
        with (
            locked(self.folder.path / RUN_LOCK),
            study_engine(self.folder, study, start_s=self.start_s) as engine,
        ):
            yield study, TranscribingEngine(engine, folder / TRANSCRIPT_FILE)

    def _carry_out(
        self,
        study: Study,
        engine: Engine,
        folder: Path,
        started: StartedRun,
        ask: Callable[[Facts], Generator[Question, FloatVector, Outcome]],
        progress: Callable[[RoundReport], None] | None,
    ) -> FinishedRun[Outcome]:
        members = [Member(name=site.name, identity=site.identity) for site in study.sites]
        session = Session(
            engine,
            self.folder.identity(),
            members,
            protection=started.protection,
            algorithm=started.algorithm,
            colluders=study.safe_against,
            timeout_s=self.timeout_s,
            progress=progress,
            journal=Journal(folder / JOURNAL_FILE),
        )
        return carry_out(
            session, ask, members, seed=started.seed, opened=lambda: self._open(session)
        )

    def _open(self, session: Session) -> int:
        """Open the session, again and again while people still have to approve it."""
        deadline = time.monotonic() + self.approval_s
        while True:
            try:
                return session.open()
            except PolicyRefusedError as refusal:
                awaits = refusal.message == AWAITS or isinstance(refusal, DifferencingError)
                if not awaits or time.monotonic() >= deadline:
                    raise
                time.sleep(APPROVAL_PAUSE_S)

    def _check(self, study: Study, protection: Protection) -> None:
        if len(study.sites) < study.min_sites:
            raise CohortError(
                f"the study has {len(study.sites)} sites, it asks for {study.min_sites}",
                remedy="Enrol more sites with `cipherdag coordinator approve`.",
            )
        if protection not in study.protections:
            raise ProtectionError(f"the study does not allow the protection '{protection}'")

    def _new_run(self) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = self.folder.runs / f"{stamp}-{secrets.token_hex(3)}"
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def _write(self, folder: Path, study: Study, result: Run) -> None:
        """The signed result for the sites, and the same as an ordinary result folder."""
        signed = sign_result(
            self.folder.identity(),
            study=study,
            algorithm=result.algorithm,
            protection=result.protection,
            rounds=len(result.rounds),
            variables=len(result.identifiers),
            **result.signed_content(),
        )
        content = msgspec.json.format(msgspec.json.encode(signed), indent=2)
        (folder / RESULT_FILE).write_bytes(content + b"\n")
        result.save(folder)
