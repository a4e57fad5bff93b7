"""Sites in this process; keys, messages, ledgers and privacy code are the real ones.

Leaks:
    What the algorithm's questions leak: the coordinator sees sums over the sites.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.arrays import FloatVector
from cipherdag.errors import RefusedError, SiteUnreachableError
from cipherdag.federation.kept_run import taken_up
from cipherdag.federation.one_run import FinishedRun, carry_out
from cipherdag.federation.shared_reading import SharedReading
from cipherdag.federation.site import Site
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.journal import Summed
from cipherdag.protocol.plan import Member, Plan, make_plan
from cipherdag.protocol.progress import RoundReport
from cipherdag.protocol.replay import Replay
from cipherdag.protocol.session import Session
from cipherdag.questions.question import Question
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.plan_facts import facts_by
from cipherdag.sites.program import Program, Programs, asking, computed_with
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime

if TYPE_CHECKING:
    from cipherdag.federation.kept_run import KeptRun
    from cipherdag.federation.simulated import Federation

Outcome = TypeVar("Outcome")


@dataclass(slots=True)
class SharedProgram(Generic[Outcome]):
    """One run of a generator that coordinator and sites of this process go through together.

    Attributes:
        ask: Makes the generator.
        names: The variables, which everybody in this process may know.
        earlier: Rounds that ended before this run was stopped and taken up again.
    """

    ask: Callable[[Facts], Generator[Question, FloatVector, Outcome]]
    names: tuple[str, ...]
    earlier: tuple[Summed, ...] = field(repr=False, default=())
    _program: Program | None = field(default=None, repr=False)

    def of_plan(self, _: Plan, facts: Facts) -> Program:
        """The program as a site sees it."""
        return self.of_facts(facts)

    def of_facts(self, facts: Facts) -> Program:
        """The same run, as the coordinator sees it."""
        if self._program is None:
            facts = replace(facts, names=self.names)
            whole = asking(self.ask, facts)
            left, opened = taken_up(whole, facts.present, self.earlier)
            self._program = Program(Replay(left, facts.present), facts, earlier=opened)
        return self._program


def run_in_process(
    federation: Federation,
    name: str,
    ask: Callable[[Facts], Generator[Question, FloatVector, Outcome]],
    *,
    parameters: Mapping[str, Any],
    seed: int,
    progress: Callable[[RoundReport], None] | None,
    kept: KeptRun | None = None,
) -> FinishedRun[Outcome]:
    """Make keys and sites, carry a run out, and take the sites' ledgers.

    Args:
        federation: The sites.
        name: Name of the algorithm, which the sites' policies allow or not.
        ask: The algorithm: yields questions, receives sums, and returns an outcome. Coordinator and
            sites share one run of it.
        parameters: What the plan says of it.
        seed: Seed of all that it draws.
        progress: Called after every round.
        kept: Keeps the rounds that end, and has those that ended before.

    Raises:
        OutputError: The rounds kept are of other questions, or a round cannot be kept.
        PrivacyError: A site refused, or a message was altered.
        SiteNotReadyError: A site failed in its own computation.
        SiteUnreachableError: A site did not answer.
    """
    made = _Started.of(federation, name, ask, parameters, seed, progress, kept)
    if kept is not None and kept.summed:
        # here it fails by name, and at no site
        made.program.of_facts(facts_by(made.plan, federation.sites[0].table.schema))
    try:
        done: FinishedRun[Outcome] = carry_out(
            made.session, made.plan, made.program.of_facts, names=made.program.names
        )
    except (RefusedError, SiteUnreachableError) as error:
        for site, runtime in made.runtimes.items():
            if (own := runtime.refused) is not None:
                # in this process nothing has to be hidden from whoever simulates
                own.site = own.site or site
                raise own from error
        raise
    finally:
        if kept is not None:
            kept.stopped()
    if kept is not None:
        done = kept.whole(done)
    heads = {site: ledger.head for site, ledger in made.ledgers.items()}
    lines = {site: ledger.lines for site, ledger in made.ledgers.items()}
    return replace(done, heads=heads, ledgers=lines)


def refusals_off_plan(
    federation: Federation, algorithm: Algorithm[Any, Any], asked: Algorithm[Any, Any]
) -> dict[str, str]:
    """What each site says to a coordinator that asks other questions than those of its plan.

    Args:
        federation: The sites.
        algorithm: What the plan says.
        asked: What the coordinator asks in its place.
    """
    made = _Started.of(
        federation, algorithm.name, algorithm.ask, msgspec.to_builtins(algorithm), 0, None
    )
    with suppress(RefusedError, SiteUnreachableError):
        carry_out(
            made.session,
            made.plan,
            lambda facts: Program(Replay(asked.ask(facts), facts.present), facts),
        )
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
        federation: Federation,
        name: str,
        ask: Callable[[Facts], Generator[Question, FloatVector, Outcome]],
        parameters: Mapping[str, Any],
        seed: int,
        progress: Callable[[RoundReport], None] | None,
        kept: KeptRun | None = None,
    ) -> _Started[Outcome]:
        coordinator = SigningIdentity.generate()
        identities, ledgers = _recorded_by(federation, kept)
        pinned = {site: identity.public for site, identity in identities.items()}
        earlier = kept.summed if kept is not None else ()
        schema = federation.sites[0].table.schema
        program = SharedProgram(ask, schema.names, earlier)
        shared = SharedReading(coordinator.public)
        runtimes = {
            site.name: _runtime(
                site,
                identities[site.name],
                coordinator.public,
                pinned,
                ledgers[site.name],
                federation.device,
                program.of_plan,
                shared,
            )
            for site in federation.sites
        }
        members = [
            Member(name=site, identity=key, lacking=schema.unmeasured_at(site))
            for site, key in pinned.items()
        ]
        most = max(site.policy.tolerated_colluders for site in federation.sites)
        plan = make_plan(
            members,
            algorithm=name,
            protection=federation.protection,
            parameters=parameters,
            seed=seed,
            versions=computed_with(),
            colluders=min(most, len(members) - 1),
            min_contributors=max(site.policy.min_sites for site in federation.sites),
            purpose="a simulation in one process",
        )
        session = Session(
            federation.wire({site: shared.door(runtime) for site, runtime in runtimes.items()}),
            coordinator,
            plan,
            progress=progress if kept is None else kept.following(progress),
            journal=kept,
        )
        return cls(session, plan, program, runtimes, ledgers)


def _recorded_by(
    federation: Federation, kept: KeptRun | None
) -> tuple[Mapping[str, SigningIdentity], Mapping[str, Ledger]]:
    """Signing key and ledger of every site: new ones, or those of the run that goes on."""
    if kept is not None:
        return kept.identities, kept.ledgers
    identities = {site.name: SigningIdentity.generate() for site in federation.sites}
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
