"""Sites in this process; keys, messages, ledgers and privacy code are the real ones.

Leaks:
    What the algorithm's questions leak: the coordinator sees sums over the sites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import msgspec

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.errors import CohortError, RefusedError, SiteUnreachableError
from cipherdag.federation.checkpoint import Checkpoint
from cipherdag.federation.shared_reading import SharedReading
from cipherdag.federation.site import Site
from cipherdag.pages.numerals import counted
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.protections import protection_kind
from cipherdag.program.program import Asking, Program, Programs, SharedProgram, plan_facts
from cipherdag.program.replay import Outcome
from cipherdag.program.run import FinishedRun, carry_out
from cipherdag.program.versions import computed_with
from cipherdag.protocol.engines.engine import Engine, Handler, LocalEngine
from cipherdag.protocol.plan import Member, Plan, Protection, make_plan
from cipherdag.protocol.progress import RoundReport
from cipherdag.protocol.session import Session
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.handshake import SiteProfile
from cipherdag.sites.session.runtime import SiteRuntime

Wire = Callable[[Mapping[str, Handler]], Engine]
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True, repr=False)
class LocalSites:
    """Sites in this process under one protection; `Federation` makes them.

    Attributes:
        sites: The sites in order.
        protection: ``masking``, ``bfv`` or ``none``.
        device: Where the sites compute: ``cpu``, ``cuda`` or ``auto``.
        wire: Makes the engine from the sites' handlers; the in-process engine by default.

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
            raise CohortError("two sites have the same name")
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

    Args:
        cohort: The sites.
        name: Name of the algorithm, which the sites' policies allow or not.
        ask: The algorithm: yields questions, receives sums, and returns an outcome. Coordinator and
            sites share one run of it.
        parameters: What the plan says of it.
        seed: Seed of all that it draws.
        progress: Called after every round.
        checkpoint: Keeps the rounds that end, and has those that ended before.

    Raises:
        OutputError: The rounds kept are of other questions, or a round cannot be kept.
        PrivacyError: A site refused, or a message was altered.
        SiteNotReadyError: A site failed in its own computation.
        SiteUnreachableError: A site did not answer.
    """
    made = _Started.of(cohort, name, ask, parameters, seed, progress, checkpoint)
    if checkpoint is not None and checkpoint.earlier:
        # here it fails by name, and at no site
        schema = cohort.sites[0].table.schema
        known = len(schema.names), schema.label_positions, schema.determined
        made.program(made.plan, plan_facts(made.plan, *known))
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

    Args:
        cohort: The sites.
        algorithm: What the plan says.
        asked: What the coordinator asks in its place.
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
            Member(name=site, identity=key, lacking=schema.unmeasured_at(site))
            for site, key in pinned.items()
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
