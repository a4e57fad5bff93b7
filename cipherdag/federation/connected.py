"""A federation of real sites: the same run as in one process, over the study's engine.

Leaks:
    The coordinator knows variables by identifier only; names stay at the sites.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from cipherdag.algorithms.registry import asking
from cipherdag.deployment.packages import package_versions
from cipherdag.deployment.study_engine import study_engine
from cipherdag.errors import (
    CohortError,
    DifferencingError,
    OutputError,
    PolicyRefusedError,
    ProtectionError,
)
from cipherdag.federation.started_run import JOURNAL_FILE, StartedRun
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import Member, Protection
from cipherdag.protocol.session import Session
from cipherdag.protocol.transcript import TranscribingEngine
from cipherdag.results.naming import named_result
from cipherdag.results.result import Result
from cipherdag.sites.policy.approvals import AWAITS
from cipherdag.sites.private_files import locked
from cipherdag.sites.record.ledger import LedgerHead
from cipherdag.sites.study.signed_result import ResultEdge, ResultFeature, SignedResult, sign_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cipherdag.algorithms.registry import Algorithm
    from cipherdag.deployment.coordinator_folder import CoordinatorFolder
    from cipherdag.protocol.engines.engine import Engine
    from cipherdag.protocol.progress import RoundReport
    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.sites.study.study import Study

APPROVAL_PAUSE_S = 2.0
RUN_LOCK = ".running"
TRANSCRIPT_FILE = "transcript.jsonl"
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
        algorithm: Algorithm,
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        begun: Callable[[Path], None] | None = None,
    ) -> Result | FeatureResult:
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
            parameters=asdict(algorithm),
            protection=self.protection,
            seed=seed,
            source=dict(source or {}),
        )
        started.write(folder)
        if begun is not None:
            begun(folder)
        return self._carry_on(folder, started, progress)

    def resume(
        self, folder: Path, *, progress: Callable[[RoundReport], None] | None = None
    ) -> Result | FeatureResult:
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
    ) -> Result | FeatureResult:
        """A run from its journal on, which is empty for a new one."""
        study = self.study
        with (
            locked(self.folder.path / RUN_LOCK),
            study_engine(self.folder, study, start_s=self.start_s) as engine,
        ):
            transcribed = TranscribingEngine(engine, folder / TRANSCRIPT_FILE)
            return self.learn(study, transcribed, folder, started, progress)

    def learn(
        self,
        study: Study,
        engine: Engine,
        folder: Path,
        started: StartedRun,
        progress: Callable[[RoundReport], None] | None,
    ) -> Result | FeatureResult:
        """The run over an engine that reaches the sites; `run` and `resume` bring one up."""
        begun = time.perf_counter()
        algorithm = started.make_algorithm()
        session = Session(
            engine,
            self.folder.identity(),
            [Member(name=site.name, identity=site.identity) for site in study.sites],
            protection=started.protection,
            algorithm=algorithm.name,
            timeout_s=self.timeout_s,
            progress=progress,
            journal=Journal(folder / JOURNAL_FILE),
        )
        n_variables = self._open(session)
        identifiers = tuple(str(number) for number in range(1, n_variables + 1))
        outcome = session.run(
            asking(
                algorithm,
                n_variables=n_variables,
                n_sites=len(study.sites),
                labels=session.labels,
                names=identifiers,
                seed=started.seed,
            )
        )
        closed = session.finish()
        result = named_result(
            outcome,
            identifiers,
            algorithm=algorithm.name,
            parameters=asdict(algorithm),
            protection=started.protection,
            identifiers={name: name for name in identifiers},
            sites=tuple(study.pinned),
            rounds=session.rounds,
            seconds=time.perf_counter() - begun,
            bytes_sent_per_site=session.bytes_sent_per_site,
            dropouts=session.dropouts,
            seed=started.seed,
            versions=package_versions(),
            ledgers={},
            heads={
                name: LedgerHead(
                    last.records, last.ledger_head.hex(), name, study.pinned[name].hex()
                )
                for name, last in closed.items()
            },
            source=started.source,
        )
        self._write(folder, study, result)
        return result

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

    def _write(self, folder: Path, study: Study, result: Result | FeatureResult) -> None:
        """The signed result for the sites, and the same as an ordinary result folder."""
        signed = self._signed(study, result)
        content = msgspec.json.format(msgspec.json.encode(signed), indent=2)
        (folder / RESULT_FILE).write_bytes(content + b"\n")
        result.save(folder)

    def _signed(self, study: Study, result: Result | FeatureResult) -> SignedResult:
        edges: tuple[ResultEdge, ...] = ()
        features: tuple[ResultFeature, ...] = ()
        if isinstance(result, Result):
            edges = tuple(
                ResultEdge(int(edge.source), int(edge.target), edge.mark)
                for edge in result.graph.edges
            )
        else:
            features = tuple(
                ResultFeature(int(label), int(own.feature), own.strength, own.p_value)
                for label, chosen in result.features.items()
                for own in chosen
            )
        return sign_result(
            self.folder.identity(),
            study=study,
            algorithm=result.algorithm,
            protection=result.protection,
            rounds=len(result.rounds),
            variables=len(result.identifiers),
            edges=edges,
            features=features,
        )
