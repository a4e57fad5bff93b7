"""A federation of real sites: the same run as in one process, over NVIDIA FLARE.

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

from cipherdag.enrolment import package_versions
from cipherdag.errors import CohortError, PolicyRefusedError, ProtectionError
from cipherdag.outcomes import asking_for_graph, named_details, named_graphs
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import Member, Protection
from cipherdag.protocol.session import Session
from cipherdag.result import Result
from cipherdag.sites.approvals import AWAITS
from cipherdag.sites.ledger import LedgerHead
from cipherdag.sites.result_file import ResultEdge, sign_result
from cipherdag.sites.site_folder import locked
from cipherdag.transcript import TranscribingEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cipherdag.algorithms.fedcd import FedCD
    from cipherdag.algorithms.fedpc import FedPC
    from cipherdag.coordinating import CoordinatorFolder
    from cipherdag.protocol.engines.engine import Engine
    from cipherdag.protocol.reports import RoundReport
    from cipherdag.sites.study import Study

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
        algorithm: FedPC | FedCD,
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> Result:
        """Run one algorithm over all sites of the study.

        A transcript of what arrived, a journal and a signed result for the sites are written to
        a new folder under ``runs/`` of the coordinator.

        Args:
            algorithm: Its parameters, such as ``FedPC(alpha=0.01)``.
            seed: Seed of everything that draws at random in the algorithm.
            progress: Called after every round.
            source: What a saved ``run.toml`` says of the run.

        Returns:
            The result, with identifiers "1", "2", ... instead of names and without ledgers, which
            stay at the sites; `Result.heads` tells where they ended.

        Raises:
            CohortError: The study has fewer sites than it asks for.
            ProtectionError: The study does not allow the protection.
            PrivacyError: A site refused, or a message was altered.
            SiteNotReadyError: A site is not ready.
            SiteUnreachableError: The server or too many sites do not answer.
        """
        study = self.study
        self._check(study)
        from cipherdag.protocol.engines.nvflare import FlareEngine
        from cipherdag.protocol.engines.nvflare_admin import end_orphans

        run_folder = self._new_run()
        names = [site.name for site in study.sites]
        kit = self.folder.kit("admin")
        with locked(self.folder.path / RUN_LOCK):
            end_orphans(kit)
            with FlareEngine(kit, sites=names, start_s=self.start_s) as engine:
                transcribed = TranscribingEngine(engine, run_folder / "transcript.jsonl")
                return self._run(study, transcribed, run_folder, algorithm, seed, progress, source)

    def _run(
        self,
        study: Study,
        engine: Engine,
        run_folder: Path,
        algorithm: FedPC | FedCD,
        seed: int,
        progress: Callable[[RoundReport], None] | None,
        source: Mapping[str, Any] | None,
    ) -> Result:
        started = time.perf_counter()
        session = Session(
            engine,
            self.folder.identity(),
            [Member(name=site.name, identity=site.identity) for site in study.sites],
            protection=self.protection,
            algorithm=algorithm.name,
            timeout_s=self.timeout_s,
            progress=progress,
            journal=Journal(run_folder / "journal.jsonl"),
        )
        n_variables = self._open(session)
        outcome = session.run(
            asking_for_graph(
                algorithm, n_variables=n_variables, n_sites=len(study.sites), seed=seed
            )
        )
        closed = session.finish()
        identifiers = tuple(str(number) for number in range(1, n_variables + 1))
        graph, dag, note = named_graphs(outcome, identifiers)
        result = Result(
            algorithm=algorithm.name,
            parameters=asdict(algorithm),
            protection=self.protection,
            graph=graph,
            dag=dag,
            dag_note=note,
            details=named_details(outcome, identifiers),
            identifiers={name: name for name in identifiers},
            sites=tuple(study.pinned),
            rounds=session.rounds,
            seconds=time.perf_counter() - started,
            bytes_sent_per_site=session.bytes_sent_per_site,
            dropouts=session.dropouts,
            seed=seed,
            versions=package_versions(),
            ledgers={},
            heads={
                name: LedgerHead(
                    last.records, last.ledger_head.hex(), name, study.pinned[name].hex()
                )
                for name, last in closed.items()
            },
            source=dict(source or {}),
        )
        self._write(run_folder, study, result)
        return result

    def _open(self, session: Session) -> int:
        """Open the session, again and again while people still have to approve it."""
        deadline = time.monotonic() + self.approval_s
        while True:
            try:
                return session.open()
            except PolicyRefusedError as refusal:
                if refusal.message != AWAITS or time.monotonic() >= deadline:
                    raise
                time.sleep(APPROVAL_PAUSE_S)

    def _check(self, study: Study) -> None:
        if len(study.sites) < study.min_sites:
            raise CohortError(
                f"the study has {len(study.sites)} sites, it asks for {study.min_sites}",
                remedy="Enrol more sites with `cipherdag coordinator approve`.",
            )
        if self.protection not in study.protections:
            raise ProtectionError(f"the study does not allow the protection '{self.protection}'")

    def _new_run(self) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = self.folder.runs / f"{stamp}-{secrets.token_hex(3)}"
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def _write(self, folder: Path, study: Study, result: Result) -> None:
        """The signed result for the sites, and the same as an ordinary result folder."""
        edges = tuple(
            ResultEdge(int(edge.source), int(edge.target), edge.mark) for edge in result.graph.edges
        )
        signed = sign_result(
            self.folder.identity(),
            study=study,
            algorithm=result.algorithm,
            protection=result.protection,
            rounds=len(result.rounds),
            variables=len(result.identifiers),
            edges=edges,
        )
        content = msgspec.json.format(msgspec.json.encode(signed), indent=2)
        (folder / RESULT_FILE).write_bytes(content + b"\n")
        result.save(folder)
