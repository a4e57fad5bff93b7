"""A federation of real sites: the same run as in one process, over the study's engine.

Leaks:
    The coordinator knows variables by identifier only; names stay at the sites.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.parameters import require
from cipherdag.algorithms.registry import chosen_algorithm, program_digest
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.shared_folder import study_engine
from cipherdag.errors import (
    CohortError,
    OutputError,
    ParameterError,
    PolicyRefusedError,
    ProtectionError,
    writing,
)
from cipherdag.federation.checkpoint import StartedRun
from cipherdag.findings.finding import Finding
from cipherdag.graphs.knowledge import NUMBERED_AT_A_SITE, Knowledge
from cipherdag.program.program import Program
from cipherdag.program.replay import Outcome
from cipherdag.program.run import FinishedRun, carry_out
from cipherdag.program.versions import computed_with
from cipherdag.protocol.engines.engine import Engine
from cipherdag.protocol.journal import JOURNAL_FILE, TRANSCRIPT_FILE, Journal, TranscribingEngine
from cipherdag.protocol.messages import WAITING
from cipherdag.protocol.plan import Member, Plan, Protection, make_plan, measured_by
from cipherdag.protocol.progress import RoundReport
from cipherdag.protocol.session import Session
from cipherdag.results.folder import REPORT_FILE
from cipherdag.results.run import Run, result_of, warned
from cipherdag.sites.policy.plan_account import PlanAccount, plan_lines
from cipherdag.sites.private_files import locked
from cipherdag.sites.study.study import Study
from cipherdag.sites.table.visits import MAX_VISITS

log = logging.getLogger("cipherdag.waiting")
FindingType = TypeVar("FindingType", bound=Finding)

APPROVAL_PAUSE_S = 1.0
"""Least seconds between two tries to open a session that waits for approval. The pause is as long
as the last try took, if that is longer, so that waiting does not fill a shared folder."""
RUN_LOCK = ".running"


@dataclass(frozen=True, slots=True)
class ConnectedFederation:
    """The sites of a coordinator's study, made by `Federation.connect`, which explains the fields.

    Server and sites may take ``start_s`` seconds to come up.
    """

    folder: CoordinatorFolder
    protection: Protection = "masking"
    purpose: str = ""
    requester: str = ""
    timeout_s: float = 600.0
    start_s: float = 30.0
    approval_s: float = 0.0
    lacking: Mapping[str, Sequence[int]] = field(default_factory=dict)
    visits: Sequence[str] = ()

    @property
    def study(self) -> Study:
        """The study as it stands."""
        return self.folder.study()

    def plan(self, algorithm: Algorithm[Any, Any] | str, *, seed: int = 0) -> Plan:
        """Make the plan that the sites would be asked to carry out; nothing is sent.

        The algorithm is one such as ``FedPC(alpha=0.01)``, or a name; ``seed`` is that of all that
        it draws at random.

        Raises:
            ParameterError: There is no purpose, the algorithm is not installed, it needs every
                variable of every site, or its background knowledge has names.
            CohortError: The study has fewer sites than it asks for, or no site of a name in
                ``lacking``, or too few sites lack the same variables.
            ProtectionError: The study does not allow the protection.
        """
        algorithm = chosen_algorithm(algorithm)
        require(bool(self.purpose.strip()), "a plan over real sites says what its result is for")
        study = self.study
        self._check_study(study, self.protection)
        members = self._members(study)
        algorithm.check_measured(measured_by(members))
        algorithm.check_visits(max(member.visits for member in members))
        _check_numbered(getattr(algorithm, "knowledge", None) or Knowledge())
        return make_plan(
            members,
            algorithm=algorithm.name,
            protection=self.protection,
            parameters=msgspec.to_builtins(algorithm),
            seed=seed,
            program=program_digest(algorithm.name),
            versions=computed_with(),
            colluders=study.safe_against,
            min_contributors=study.min_sites,
            purpose=self.purpose,
            requester=self.requester,
        )

    def explain(self, plan: Plan) -> PlanAccount:
        """A plan in sentences, as people at the sites read it, but with numbers for names."""
        return PlanAccount(tuple(plan_lines(plan)))

    def _members(self, study: Study) -> list[Member]:
        """The study's sites in the order of their names, and what each lacks by position."""
        strangers = sorted({*self.lacking, *self.visits} - {site.name for site in study.sites})
        if strangers:
            raise CohortError(
                f"lacking or visits names '{strangers[0]}', no site of the study",
                remedy=f"Its sites are {', '.join(site.name for site in study.sites)}.",
            )
        numbers = {name: sorted(set(lacks)) for name, lacks in self.lacking.items()}
        require(
            all(number >= 1 for lacks in numbers.values() for number in lacks),
            "what a site lacks are identifiers of variables, from 1",
        )
        return [
            Member(
                name=site.name,
                identity=site.identity,
                lacking=tuple(number - 1 for number in numbers.get(site.name, ())),
                visits=MAX_VISITS if site.name in self.visits else 1,
            )
            for site in sorted(study.sites, key=lambda site: site.name)
        ]

    @overload
    def run(
        self,
        algorithm: Algorithm[Any, FindingType],
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        begun: Callable[[Path], None] | None = None,
    ) -> Run[FindingType]: ...
    @overload
    def run(
        self,
        algorithm: str,
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        begun: Callable[[Path], None] | None = None,
    ) -> Run[Any]: ...
    def run(
        self,
        algorithm: Algorithm[Any, Any] | str,
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        begun: Callable[[Path], None] | None = None,
    ) -> Run[Any]:
        """Run one algorithm over all sites of the study; see `plan` and `carry_out_plan`."""
        plan = self.plan(algorithm, seed=seed)
        return self.carry_out_plan(plan, progress=progress, source=source, begun=begun)

    def carry_out_plan(
        self,
        plan: Plan,
        *,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        begun: Callable[[Path], None] | None = None,
    ) -> Run[Any]:
        """Have the sites carry out a plan, once the people there have approved it.

        The plan, a transcript of what arrived, a journal and the result are written to a new
        folder under ``runs/`` of the coordinator. Every site has the same result by its own names.

        Args:
            plan: What `plan` made.
            progress: Called after every round.
            source: What a saved ``run.toml`` says of the run.
            begun: Told the run's folder, before any site is asked; see `resume`.

        Returns:
            The result, with identifiers "1", "2", ... instead of names and without ledgers, which
            stay at the sites; `Run.heads` tells where they ended.

        Raises:
            CohortError: The study has fewer sites than it asks for, or the plan names others.
            SchemaError: FedCMFS, and the schema marks no label.
            ProtectionError: The study does not allow the protection.
            PrivacyError: A site refused, or a message was altered.
            SiteNotReadyError: A site is not ready.
            SiteUnreachableError: The server or too many sites do not answer.
        """
        self._check_cohort(plan)
        folder = self._new_run()
        started = StartedRun(plan=plan, source=dict(source or {}))
        started.write(folder)
        if begun is not None:
            begun(folder)
        with self._reached(folder) as engine:
            return self.learn(engine, folder, started, progress)

    def resume(
        self, folder: Path, *, progress: Callable[[RoundReport], None] | None = None
    ) -> Run[Any]:
        """Go on with a run whose coordinator crashed, or that stopped for want of sites.

        Rounds that ended are not asked again. The one that was under way is asked again by the
        same bytes, to which the sites give the same replies. A site that was restarted since holds
        no keys of the run: it counts as one that left.

        Args:
            folder: The run's folder under ``runs/``.
            progress: Called after every round that ends from now on.

        Raises:
            OutputError: The folder is no run's, or the run has ended.
            CipherdagError: As `carry_out_plan`.
        """
        started = StartedRun.read(folder)
        if (folder / REPORT_FILE).exists():
            raise OutputError(f"the run in {folder} has ended", remedy="Its result lies there.")
        self._check_cohort(started.plan)
        with self._reached(folder) as engine:
            return self.learn(engine, folder, started, progress)

    def learn(
        self,
        engine: Engine,
        folder: Path,
        started: StartedRun,
        progress: Callable[[RoundReport], None] | None,
    ) -> Run[Any]:
        """The run over an engine that reaches the sites; `run` and `resume` bring one up."""
        algorithm = started.make_algorithm()
        done = self._carry_out(engine, folder, started.plan, algorithm, progress)
        result = result_of(
            done,
            algorithm,
            protection=started.plan.protection,
            identifiers={name: name for name in done.names},
            source=started.source,
        )
        warned(result).save(folder, force=True)
        return result

    def ask(
        self,
        algorithm: Algorithm[Outcome, Any],
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
    ) -> FinishedRun[Outcome]:
        """Carry out an algorithm that every site has installed, and conclude nothing from it.

        A transcript of what arrived and a journal are written to a new folder under ``runs/``.

        Args:
            algorithm: Its parameters; docs/howto/write-an-algorithm.md says how sites install it.
            seed: Seed of everything that it draws at random.
            progress: Called after every round.

        Raises:
            CipherdagError: As `plan` and `carry_out_plan`.
        """
        plan = self.plan(algorithm, seed=seed)
        with self._reached(folder := self._new_run()) as engine:
            return self._carry_out(engine, folder, plan, algorithm, progress)

    @contextmanager
    def _reached(self, folder: Path) -> Iterator[Engine]:
        """An engine that reaches the study's sites and transcribes what they send."""
        with (
            locked(self.folder.path / RUN_LOCK),
            study_engine(
                self.folder.path, self.study, self.folder.share, start_s=self.start_s
            ) as engine,
        ):
            yield TranscribingEngine(engine, folder / TRANSCRIPT_FILE)

    def _carry_out(
        self,
        engine: Engine,
        folder: Path,
        plan: Plan,
        algorithm: Algorithm[Outcome, Any],
        progress: Callable[[RoundReport], None] | None,
    ) -> FinishedRun[Outcome]:
        session = Session(
            engine,
            self.folder.identity(),
            plan,
            timeout_s=self.timeout_s,
            progress=progress,
            journal=Journal(folder / JOURNAL_FILE),
        )
        return carry_out(
            session,
            plan,
            lambda _, facts: Program.of(algorithm, facts),
            opened=lambda: self._open(session),
        )

    def _open(self, session: Session) -> int:
        """Open the session, again and again while people still have to approve it."""
        deadline = time.monotonic() + self.approval_s
        awaited: str | None = None
        while True:
            asked = time.monotonic()
            try:
                return session.open()
            except PolicyRefusedError as refusal:
                if refusal.message not in WAITING or time.monotonic() >= deadline:
                    raise
                if refusal.site != awaited:
                    awaited = refusal.site
                    log.info("%s", refusal)
                time.sleep(max(APPROVAL_PAUSE_S, time.monotonic() - asked))

    def _check_study(self, study: Study, protection: Protection) -> None:
        if len(study.sites) < study.min_sites:
            raise CohortError(
                f"the study has {len(study.sites)} sites, it asks for {study.min_sites}",
                remedy="Enrol more sites with `cipherdag coordinator approve`.",
            )
        if protection not in study.protections:
            raise ProtectionError(
                f"the study does not allow the protection '{protection}'",
                remedy=f"Choose {' or '.join(study.protections)}.",
            )

    def _check_cohort(self, plan: Plan) -> None:
        study = self.study
        self._check_study(study, plan.protection)
        for member in plan.cohort:
            if study.pinned.get(member.name) != member.identity:
                raise CohortError(
                    f"the plan names '{member.name}', which the study does not have",
                    remedy="Make a new plan with `cipherdag coordinator plan`.",
                )

    def _new_run(self) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = self.folder.runs / f"{stamp}-{secrets.token_hex(3)}"
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True)
        return folder


def _check_numbered(knowledge: Knowledge) -> None:
    """Refuse background knowledge by names, which only the sites have."""
    if name := next((name for name in knowledge.names if not name.isdecimal()), None):
        raise ParameterError(
            f"the knowledge names '{name}', and the names of real sites' columns stay there",
            remedy=NUMBERED_AT_A_SITE,
        )
