"""Sites in this process; keys, messages, ledgers and privacy code are the real ones.

A message that all sites get is read and checked by the first of them, for all. Sites in separate
processes never share this. A message that differs in a single byte is read again.

Leaks:
    What the algorithm's questions leak: the coordinator sees sums over the sites.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Generic

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.arrays import FloatVector
from cipherdag.errors import CohortError, RefusedError, SiteUnreachableError
from cipherdag.federation.checkpoint import Checkpoint
from cipherdag.federation.site import Site
from cipherdag.pages.numerals import counted
from cipherdag.privacy.aggregation import Declaration
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import read_verdicts
from cipherdag.privacy.protections import protection_kind
from cipherdag.privacy.sums import SiteAggregation
from cipherdag.privacy.wire import digest
from cipherdag.program.program import Asking, Program, Programs, SharedProgram, plan_facts
from cipherdag.program.replay import Outcome
from cipherdag.program.run import FinishedRun, carry_out
from cipherdag.program.versions import computed_with
from cipherdag.protocol.asked import Context, Recall
from cipherdag.protocol.engines.engine import Engine, Handler, LocalEngine
from cipherdag.protocol.messages import Ask, content_digest
from cipherdag.protocol.plan import Member, Plan, Protection, make_plan
from cipherdag.protocol.progress import RoundReport
from cipherdag.protocol.secure_tests import batch_of
from cipherdag.protocol.session import Session
from cipherdag.protocol.set_up_messages import beacon_of
from cipherdag.questions.question import Question
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.admission import open_message
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.reading import Reading, read_relayed, read_sum
from cipherdag.sites.session.runtime import SiteRuntime

Wire = Callable[[Mapping[str, Handler]], Engine]
_MOST_NAMED = 6  # sites that the text form of `LocalSites` names


@dataclass(frozen=True, slots=True, repr=False)
class LocalSites:
    """Sites in this process under one protection; `Federation` makes them.

    Raises:
        CohortError: There is no site, or two have the same name.
        ProtectionError: There is no such protection.
    """

    sites: tuple[Site, ...]
    protection: Protection = "masking"
    device: str = "auto"
    wire: Wire = field(default=LocalEngine, repr=False)

    def __post_init__(self) -> None:
        protection_kind(self.protection)
        names = [site.name for site in self.sites]
        if len(set(names)) != len(names):
            raise CohortError(
                "two sites have the same name", remedy="Give every site another name."
            )
        if not names:
            raise CohortError("a federation needs at least one site")

    def __repr__(self) -> str:
        named = [site.name for site in self.sites[:_MOST_NAMED]]
        more = ", ..." if len(self.sites) > len(named) else ""
        variables = len(self.sites[0].table.names)
        return (
            f"{type(self).__name__}({counted(len(self.sites), 'site')}: {', '.join(named)}{more}; "
            f"{counted(variables, 'variable')}, {self.protection})"
        )


def run_in_process(
    cohort: LocalSites,
    name: str,
    ask: Asking[Outcome],
    *,
    parameters: Mapping[str, Any],
    seed: int,
    progress: Callable[[RoundReport], None] | None,
    checkpoint: Checkpoint | None = None,
) -> FinishedRun[Outcome]:
    """Make keys and sites, carry a run out, and take the sites' ledgers.

    ``ask`` yields questions, receives sums and returns an outcome: coordinator and sites share one
    run of it. Each site's policy allows its name or not. A checkpoint keeps every round that ends,
    and holds those that ended before the run was resumed.

    Raises:
        OutputError: The rounds kept are of other questions, or a round cannot be kept.
        PrivacyError: A site refused, or a message was altered.
        SiteNotReadyError: A site failed in its own computation.
        SiteUnreachableError: A site did not answer.
    """
    made = _Started.of(cohort, name, ask, parameters, seed, progress, checkpoint)
    if checkpoint is not None and checkpoint.earlier:
        # questions that differ from the earlier ones are refused here, by name, and not at a site
        schema = cohort.sites[0].table.schema
        facts = len(schema.names), schema.label_positions, schema.determined
        made.program(made.plan, plan_facts(made.plan, *facts))
    try:
        done: FinishedRun[Outcome] = carry_out(made.session, made.plan, made.program)
    except (RefusedError, SiteUnreachableError) as error:
        for site, runtime in made.runtimes.items():
            if (refused := runtime.refused) is not None:
                # in this process nothing has to be hidden from whoever simulates
                refused.site = refused.site or site
                raise refused from error
        raise
    finally:
        if checkpoint is not None:
            checkpoint.stopped()
    if checkpoint is not None:
        done = checkpoint.whole(done)
    heads = {site: ledger.head for site, ledger in made.ledgers.items()}
    lines = {site: ledger.lines for site, ledger in made.ledgers.items()}
    return replace(done, heads=heads, ledgers=lines)


def refusals_off_plan(
    cohort: LocalSites, algorithm: Algorithm[Any, Any], asked: Algorithm[Any, Any]
) -> dict[str, str]:
    """Each site's refusal of a coordinator whose questions differ from its plan.

    ``algorithm`` is what the plan says, ``asked`` what the coordinator asks in its place.
    """
    made = _Started.of(
        cohort, algorithm.name, algorithm.ask, msgspec.to_builtins(algorithm), 0, None
    )
    with suppress(RefusedError, SiteUnreachableError):
        carry_out(made.session, made.plan, lambda _, facts: Program.of(asked, facts))
    return {
        site: "" if runtime.refused is None else runtime.refused.message
        for site, runtime in made.runtimes.items()
    }


@dataclass(frozen=True, slots=True)
class _Started(Generic[Outcome]):
    """A run whose keys and sites are made."""

    session: Session
    plan: Plan
    program: SharedProgram[Outcome]
    runtimes: Mapping[str, SiteRuntime]
    ledgers: Mapping[str, Ledger]

    @classmethod
    def of(
        cls,
        cohort: LocalSites,
        name: str,
        ask: Asking[Outcome],
        parameters: Mapping[str, Any],
        seed: int,
        progress: Callable[[RoundReport], None] | None,
        checkpoint: Checkpoint | None = None,
    ) -> _Started[Outcome]:
        coordinator = SigningIdentity.generate()
        identities, ledgers = _recorded_by(cohort, checkpoint)
        pinned = {site: identity.public for site, identity in identities.items()}
        earlier = checkpoint.earlier if checkpoint is not None else ()
        opened = tuple((each.content, each.array, each.report.n_sites) for each in earlier)
        schema = cohort.sites[0].table.schema
        program = SharedProgram(ask, schema.names, opened)
        shared = SharedReading(coordinator.public)
        runtimes = {
            site.name: _runtime(
                site,
                identities[site.name],
                coordinator.public,
                pinned,
                ledgers[site.name],
                cohort.device,
                program,
                shared,
            )
            for site in cohort.sites
        }
        members = [
            Member(
                name=site.name,
                identity=pinned[site.name],
                lacking=schema.unmeasured_at(site.name),
                visits=site.table.visits,
            )
            for site in cohort.sites
        ]
        most = max(site.policy.tolerated_colluders for site in cohort.sites)
        plan = make_plan(
            members,
            algorithm=name,
            protection=cohort.protection,
            parameters=parameters,
            seed=seed,
            versions=computed_with(),
            colluders=min(most, len(members) - 1),
            min_contributors=max(site.policy.min_sites for site in cohort.sites),
            purpose="a simulation in one process",
        )
        session = Session(
            cohort.wire({site: shared.door(runtime) for site, runtime in runtimes.items()}),
            coordinator,
            plan,
            progress=progress,
            journal=checkpoint,
        )
        return cls(session, plan, program, runtimes, ledgers)


def _recorded_by(
    cohort: LocalSites, checkpoint: Checkpoint | None
) -> tuple[Mapping[str, SigningIdentity], Mapping[str, Ledger]]:
    """Signing key and ledger of every site: new ones, or those of the run that goes on."""
    if checkpoint is not None:
        return checkpoint.identities, checkpoint.ledgers
    identities = {site.name: SigningIdentity.generate() for site in cohort.sites}
    return identities, {site: Ledger(site, identity) for site, identity in identities.items()}


def _runtime(
    site: Site,
    identity: SigningIdentity,
    coordinator: bytes,
    pinned: Mapping[str, bytes],
    ledger: Ledger,
    device: str,
    programs: Programs,
    shared: SharedReading,
) -> SiteRuntime:
    schema = site.table.schema
    profile = SiteProfile(
        name=site.name,
        identity=identity,
        coordinator=coordinator,
        pinned=pinned,
        schema=schema.canonical(),
        rows=site.table.rows,
        labels=schema.label_positions,
        determined=schema.determined,
        lacking=schema.lacking,
    )
    respondent = SiteView.of_table(
        site.table, min_cell_size=site.policy.min_cell_size, device=device, keyed=site.keyed
    )
    return SiteRuntime(
        profile, respondent, site.policy, ledger, programs=programs, reading=shared.reading
    )


CACHED_QUESTIONS = 16


class SharedReading:
    """The last message, set-up, sum, batch and questions that a site of this process has read."""

    def __init__(self, coordinator: bytes) -> None:
        self._opened = lru_cache(maxsize=1)(partial(open_message, coordinator=coordinator))
        self._checked: tuple[bytes, Declaration, SiteAggregation] | None = None
        self._sum: tuple[bytes, FloatVector]
        self._held: tuple[tuple[bytes, Sequence[bytes], Sequence[bytes]], bytes] | None = None
        self._batch: tuple[Question | None, tuple[bytes, Roles, Ask, bytes], Batch] | None = None
        self._contents = deque[tuple["Question", bytes]](maxlen=CACHED_QUESTIONS)
        self.reading = Reading(
            lru_cache(maxsize=1)(read_relayed),
            self._read_sum,
            lru_cache(maxsize=1)(KeyGraph.drawn),
            lru_cache(maxsize=1)(Roles.draw),
            lru_cache(maxsize=1)(digest),
            self._beacon_of,
            self._content_of,
            self._batch_of,
            lru_cache(maxsize=1)(read_verdicts),
        )

    def door(self, runtime: SiteRuntime) -> Handler:
        """The handler of a runtime, which shares messages already opened for other sites."""
        return partial(self._answered, runtime)

    def _answered(self, runtime: SiteRuntime, operation: str, message: bytes) -> bytes:
        return runtime.answer(self._opened(operation, message))

    def _beacon_of(
        self, plan: Plan, commitments: Sequence[bytes], chances: Sequence[bytes]
    ) -> bytes:
        """Compute `beacon_of`, or return the beacon of equal numbers checked before."""
        opened = plan.digest, commitments, chances
        if self._held is None or self._held[0] != opened:
            self._held = opened, beacon_of(plan, commitments, chances)
        return self._held[1]

    def _content_of(self, question: Question) -> bytes:
        """Compute `content_digest`, or return that of the identical question object."""
        for earlier, content in tuple(self._contents):
            if earlier is question:
                return content
        content = content_digest(question)
        self._contents.append((question, content))
        return content

    def _batch_of(self, context: Context, ask: Ask, recall: Recall, sums: bytes) -> Batch:
        """Compute `batch_of`, or return the batch of the identical question, asked alike."""
        asked, last = (context.session, context.roles, ask, sums), self._batch
        if last is not None and last[0] is recall.rest and last[1] == asked:
            return last[2]
        batch = batch_of(context, ask, recall, sums)
        self._batch = recall.rest, asked, batch
        return batch

    def _read_sum(
        self, previous: bytes, declared: Declaration, aggregation: SiteAggregation
    ) -> tuple[bytes, FloatVector]:
        """Compute `read_sum`, or return the sum that a site with the same key has checked."""
        checked = self._checked
        same = checked is not None and checked[:2] == (previous, declared)
        if checked is None or not same or not aggregation.accepts_as(checked[2]):
            self._sum = read_sum(previous, declared, aggregation)
            self._checked = previous, declared, aggregation
        return self._sum
