"""The face for Python: put sites together, run an algorithm, get a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import chosen_algorithm
from cipherdag.errors import ParameterError
from cipherdag.federation.checkpoint import open_checkpoint
from cipherdag.federation.in_process import LocalSites, run_in_process
from cipherdag.federation.site import Site
from cipherdag.federation.site_loading import (
    check_required_columns,
    load_sites,
    named_sources,
    without_constants,
)
from cipherdag.findings.finding import Finding
from cipherdag.privacy.protections import protection_kind
from cipherdag.program.program import Asking
from cipherdag.program.replay import Outcome
from cipherdag.program.run import FinishedRun
from cipherdag.protocol.plan import Protection, min_group_size, whole_number
from cipherdag.protocol.progress import RoundReport
from cipherdag.questions.presence import Measured
from cipherdag.results.run import Run, result_of, warned
from cipherdag.sites.answers.belief_answers import no_interventions
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy
from cipherdag.sites.table.schema import Schema

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    from cipherdag.federation.connected import ConnectedFederation

    Data = IntoFrame | str | Path


FindingType = TypeVar("FindingType", bound=Finding)


@dataclass(frozen=True, slots=True, repr=False)
class Federation(LocalSites):
    """Sites that learn together under one protection; make one with `simulate` or `split`."""

    @classmethod
    def simulate(
        cls,
        data: Mapping[str, Data] | Sequence[Data] | Data,
        *,
        sites: str | None = None,
        schema: Schema | str | Path | None = None,
        labels: Sequence[str] = (),
        interventions: str | None = None,
        patient: str | None = None,
        protection: Protection = "masking",
        device: str = "auto",
        policy: Policy | None = None,
        relations: bool = True,
        overlapping: bool = False,
    ) -> Federation:
        """Sites in this process from their data; privacy code and messages are the real ones.

        Args:
            data: For each site's name a DataFrame (pandas, polars, pyarrow and what else narwhals
                reads) or a file that `reading.SOURCES` lists; of a list, sites are called site-1,
                site-2 and so on. With ``sites`` one DataFrame.
            sites: Column of that DataFrame that says the site of a row; it is then no variable.
            schema: A schema or its file; inferred from all data together when None, which only
                a run in one process can do. A column that is constant at every site is then left
                out, one that is constant at some is kept, and the log ``cipherdag.data`` says so.
                It says too what looks like a mistake.
            labels: The labels of a multi-label study, in place of those the schema marks.
            interventions: Column that names what was intervened on, in place of the schema's.
            patient: Column that says whose row it is, in place of the schema's: rows are visits.
            protection: ``masking``, ``bfv`` or ``none``.
            device: ``cpu``, ``cuda`` or ``auto``.
            policy: The sites' policy; by default the strictest that allows ``protection``. One
                that says nothing of ``questions`` allows all, as one person holds all data.
            relations: Whether to look for columns that follow from others, besides the schema's.
            overlapping: Whether data may lack columns of which no schema says ``unmeasured_at``;
                else that is an error, since a name may be misspelt. FedPC and FedFCI test what
                enough sites have; the log ``cipherdag.data`` says what cannot be used or tested.

        Raises:
            DataError: Data do not fit the schema.
            ProtectionError: There is no such protection.
            ParameterError: No site may have one of the names, or ``sites`` is no column; no data
                were read.
            CohortError: There is no site.
        """
        limits, sources = _in_one_process(policy, protection), named_sources(data, sites)
        n_sites = len(sources)
        colluders = min(limits.tolerated_colluders, max(n_sites - 1, 0))
        tables = load_sites(
            sources,
            schema,
            labels,
            interventions,
            patient,
            relations=relations,
            min_group_size=min_group_size(n_sites, colluders, limits.min_sites),
            overlapping=overlapping,
        )
        loaded = tuple(Site(name, table, limits) for name, table in tables.items())
        return cls(sites=loaded, protection=protection, device=device)

    @classmethod
    def split(
        cls,
        data: Data,
        n_sites: int,
        *,
        seed: int = 0,
        schema: Schema | str | Path | None = None,
        labels: Sequence[str] = (),
        interventions: str | None = None,
        patient: str | None = None,
        deal: Literal["uneven", "horizontal", "vertical"] = "uneven",
        protection: Protection = "masking",
        device: str = "auto",
        policy: Policy | None = None,
        relations: bool = True,
    ) -> Federation:
        """Sites that each hold a part of one table; other arguments are those of `simulate`.

        ``deal`` is ``uneven``: at least n / (2 n_sites) rows each (FedPC, section 4.1.1); or even,
        with every regime of interventions divided (``horizontal``) or dealt out whole
        (``vertical``; Fed-CD, section 3). The rows of a ``patient`` stay together.

        Raises:
            ParameterError: The seed is no whole number from 0, the number of sites is none, or the
                rows are too few.
        """
        from cipherdag.federation.site import split_patients, split_regimes, split_rows

        if whole_number(seed) < 0:
            raise ParameterError("the seed of a split must not be negative")
        n_sites = whole_number(n_sites, "a number of sites")
        (table,) = load_sites(
            {"": data}, schema, labels, interventions, patient, constants=False, relations=relations
        ).values()
        rng = np.random.default_rng(seed)
        if table.patients is not None:
            rows = split_patients(table.patients, n_sites, rng=rng)
        elif deal == "uneven":
            rows = split_rows(table.rows, n_sites, rng=rng)
        elif table.interventions is None:
            raise no_interventions("no column names the interventions that are to be dealt out")
        else:
            whole = deal == "vertical"
            rows = split_regimes(table.interventions, n_sites, vertical=whole, rng=rng)
        width = len(str(n_sites))
        limits = _in_one_process(policy, protection)
        parts = dict(zip((f"site-{n:0{width}d}" for n in range(1, n_sites + 1)), rows, strict=True))
        tables = {
            name: table.take(part).without(table.schema.unmeasured_at(name))
            for name, part in parts.items()
        }
        if schema is None:
            tables = without_constants(tables)
        sites = tuple(Site(name, part, limits) for name, part in tables.items())
        return cls(sites=sites, protection=protection, device=device)

    @classmethod
    def connect(
        cls,
        folder: str | Path,
        *,
        purpose: str,
        requester: str = "",
        protection: Protection = "masking",
        timeout_s: float = 600.0,
        approval_s: float = 0.0,
        lacking: Mapping[str, Sequence[int]] | None = None,
        visits: Sequence[str] = (),
    ) -> ConnectedFederation:
        """The real sites of a coordinator's study; the result has the same ``run``.

        Args:
            folder: The coordinator's folder, made with ``cipherdag coordinator new``.
            purpose: What results are for, in words that a person at each site reads before it
                approves the plan of a run.
            requester: Who asks for them, likewise.
            protection: ``masking``, ``bfv`` or ``none``.
            timeout_s: Seconds to wait for the slowest site in a step of a round.
            approval_s: Seconds to wait for the people at the sites who decide on a plan.
            lacking: For sites that did not measure some variables the identifiers of these, from 1,
                as ``cipherdag schema overlap`` prints them.
            visits: The sites whose rows are visits of patients.
        """
        from cipherdag.deployment.coordinator_folder import CoordinatorFolder
        from cipherdag.federation.connected import ConnectedFederation

        return ConnectedFederation(
            CoordinatorFolder(Path(folder)),
            protection=protection,
            purpose=purpose,
            requester=requester,
            timeout_s=timeout_s,
            approval_s=approval_s,
            lacking=lacking or {},
            visits=visits,
        )

    @overload
    def run(
        self,
        algorithm: Algorithm[Any, FindingType],
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        keep: str | Path | None = None,
    ) -> Run[FindingType]: ...
    @overload
    def run(
        self,
        algorithm: str,
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        keep: str | Path | None = None,
    ) -> Run[Any]: ...
    def run(
        self,
        algorithm: Algorithm[Any, Any] | str,
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
        source: Mapping[str, Any] | None = None,
        keep: str | Path | None = None,
    ) -> Run[Any]:
        """Run one algorithm over all sites.

        Args:
            algorithm: Its parameters, such as ``FedPC(alpha=0.01)``, or its name, such as "fedpc",
                for the parameters that it has by default.
            seed: Seed of everything that draws at random in the algorithm: Fed-CD's training and
                the rows of FedPC's bootstrap; the others draw nothing.
            progress: Called after every round.
            source: What a saved ``run.toml`` says about where the data came from.
            keep: Folder in which rounds are kept as they end, so that the same call goes on after
                a stop or a crash; saving the result there takes them away.

        Raises:
            ParameterError: There is no algorithm of this name, or the seed is no whole number.
            OutputError: ``keep`` holds another run, or cannot be written.
            SchemaError: The algorithm reads labels, and no column is marked as one; or it reads
                interventions, and no row of any site names one.
            ConstantColumnError: It reads labels, and a label is constant at a site or a feature at
                every site, unless the schema allows it.
            PrivacyError: A site refused, or a message was altered.
            SiteNotReadyError: A site failed in its own computation.
            SiteUnreachableError: A site did not answer.
        """
        algorithm, seed = chosen_algorithm(algorithm), whole_number(seed)
        schema = self.sites[0].table.schema
        algorithm.check_measured(
            Measured(tuple(schema.unmeasured_at(site.name) for site in self.sites))
        )
        algorithm.check_visits(max(site.table.visits for site in self.sites))
        check_required_columns(algorithm, self.sites)
        checkpoint = None
        if keep is not None:
            checkpoint = open_checkpoint(
                self.sites, self.protection, algorithm, seed, Path(keep), source or {}
            )
        done = run_in_process(
            self,
            algorithm.name,
            algorithm.ask,
            parameters=msgspec.to_builtins(algorithm),
            seed=seed,
            progress=progress,
            checkpoint=checkpoint,
        )
        result = result_of(
            done,
            algorithm,
            protection=self.protection,
            identifiers={name: str(n) for n, name in enumerate(schema.names, start=1)},
            source=source or {},
            schema=schema.dumps(),
        )
        return warned(result)

    def ask(
        self,
        name: str,
        questions: Asking[Outcome],
        *,
        seed: int = 0,
        progress: Callable[[RoundReport], None] | None = None,
    ) -> FinishedRun[Outcome]:
        """Ask questions of your own; docs/howto/write-an-algorithm.md makes an algorithm of them.

        Args:
            name: What the run is called; every site's policy must allow it.
            questions: Called with the facts of the session. It yields questions of the kinds in
                `cipherdag.questions.question`, receives the sum of all sites' answers to each, and
                returns its outcome.
            seed: The seed that the facts state.
            progress: Called after every round.

        Returns:
            The outcome, the rounds, and the ledgers with what left each site.

        Raises:
            PrivacyError: A site refused, or a message was altered.
            SiteNotReadyError: A site failed in its own computation.
            SiteUnreachableError: A site did not answer.

        Leaks:
            What the questions leak: the coordinator sees the sums that the generator receives.
        """
        return run_in_process(self, name, questions, parameters={}, seed=seed, progress=progress)


def _in_one_process(policy: Policy | None, protection: Protection) -> Policy:
    """A policy with all kinds of questions, unless it names others than every policy has.

    One person holds all data, so that questions that steer regressions disclose nothing new.
    """
    if policy is None:
        policy = Policy(allow_unprotected=not protection_kind(protection).protects)
    usual = policy.questions == Policy().questions
    return replace(policy, questions=QUESTION_KINDS) if usual else policy
