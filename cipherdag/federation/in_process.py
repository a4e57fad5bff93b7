"""Sites in this process; keys, messages, ledgers and privacy code are the real ones.

Leaks:
    What the algorithm's questions leak: the coordinator sees sums over the sites.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cipherdag.federation.one_run import FinishedRun, carry_out
from cipherdag.privacy.identity import SigningIdentity
from cipherdag.protocol.messages import Member
from cipherdag.protocol.session import Session
from cipherdag.sites.answers.table_respondent import table_respondent
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.runtime import SiteProfile, SiteRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from cipherdag.algorithms.algorithm import Facts
    from cipherdag.federation.simulated import Federation
    from cipherdag.federation.site import Site
    from cipherdag.protocol.progress import RoundReport
    from cipherdag.questions.question import FloatVector, Question

Outcome = TypeVar("Outcome")


def run_in_process(
    federation: Federation,
    name: str,
    ask: Callable[[Facts], Generator[Question, FloatVector, Outcome]],
    *,
    seed: int,
    progress: Callable[[RoundReport], None] | None,
) -> FinishedRun[Outcome]:
    """Make keys and sites, carry a run out, and take the sites' ledgers.

    Args:
        federation: The sites.
        name: Name of the algorithm, which the sites' policies allow or not.
        ask: The algorithm; see `carry_out`.
        seed: Seed of all that it draws.
        progress: Called after every round.
    """
    coordinator = SigningIdentity.generate()
    identities = {site.name: SigningIdentity.generate() for site in federation.sites}
    pinned = {site: identity.public for site, identity in identities.items()}
    ledgers = {site: Ledger(site, identity) for site, identity in identities.items()}
    runtimes = {
        site.name: _runtime(
            site, identities[site.name], coordinator.public, pinned, ledgers[site.name], federation
        )
        for site in federation.sites
    }
    members = [Member(name=site, identity=key) for site, key in pinned.items()]
    most = max(site.policy.tolerated_colluders for site in federation.sites)
    session = Session(
        federation.wire({site: runtime.handle for site, runtime in runtimes.items()}),
        coordinator,
        members,
        protection=federation.protection,
        algorithm=name,
        colluders=min(most, len(members) - 1),
        progress=progress,
    )
    names = federation.sites[0].table.schema.names
    done = carry_out(session, ask, members, names=names, seed=seed)
    # a site that left reported no head; in this process its ledger is at hand
    heads = {site: ledger.head for site, ledger in ledgers.items()} | dict(done.heads)
    lines = {site: ledger.lines for site, ledger in ledgers.items()}
    return replace(done, heads=heads, ledgers=lines)


def _runtime(
    site: Site,
    identity: SigningIdentity,
    coordinator: bytes,
    pinned: Mapping[str, bytes],
    ledger: Ledger,
    federation: Federation,
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
    )
    respondent = table_respondent(
        site.table, min_cell_size=site.policy.min_cell_size, device=federation.device
    )
    return SiteRuntime(profile, respondent, site.policy, ledger)
