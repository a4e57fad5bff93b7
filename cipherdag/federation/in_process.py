"""One run over sites in this process; keys, messages, ledgers and privacy code are the real ones.

Leaks:
    What the algorithm's questions leak: the coordinator sees sums over the sites.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from cipherdag.privacy.identity import SigningIdentity
from cipherdag.protocol.messages import Member
from cipherdag.protocol.session import Session
from cipherdag.sites.answers.table_respondent import table_respondent
from cipherdag.sites.record.ledger import Ledger, LedgerHead
from cipherdag.sites.session.runtime import SiteProfile, SiteRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from cipherdag.federation.simulated import Federation
    from cipherdag.federation.site import Site
    from cipherdag.protocol.progress import DropOut, RoundReport
    from cipherdag.questions.question import FloatVector, Question

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun(Generic[Outcome]):
    """What a run over sites in this process came to, and what left each site.

    Attributes:
        outcome: What the algorithm concluded; it speaks of positions in ``names``.
        names: The variables in the order of their positions.
        rounds: The rounds that ended in a sum.
        dropouts: The sites that left.
        bytes_sent_per_site: Bytes that left each site, the set-up included.
        ledgers: Every site's ledger, line by line.
        heads: Where every ledger ended.
        seconds: How long it took.
    """

    outcome: Outcome
    names: tuple[str, ...]
    rounds: tuple[RoundReport, ...]
    dropouts: tuple[DropOut, ...]
    bytes_sent_per_site: Mapping[str, int]
    ledgers: Mapping[str, tuple[str, ...]] = field(repr=False)
    heads: Mapping[str, LedgerHead] = field(repr=False)
    seconds: float


def run_in_process(
    federation: Federation,
    name: str,
    ask: Callable[[int, tuple[int, ...]], Generator[Question, FloatVector, Outcome]],
    *,
    progress: Callable[[RoundReport], None] | None = None,
) -> FinishedRun[Outcome]:
    """Set up keys and sites, ask an algorithm's questions, and close the ledgers.

    Args:
        federation: The sites.
        name: Name of the algorithm, which the sites' policies allow or not.
        ask: Given the number of variables and the positions of the labels, a generator that yields
            questions, receives the sums of their answers, and returns an outcome.
        progress: Called after every round.

    Raises:
        PrivacyError: A site refused, or a message was altered.
        SiteNotReadyError: A site failed in its own computation.
        SiteUnreachableError: A site did not answer.
    """
    started = time.perf_counter()
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
    session = Session(
        federation.wire({site: runtime.handle for site, runtime in runtimes.items()}),
        coordinator,
        [Member(name=site, identity=key) for site, key in pinned.items()],
        protection=federation.protection,
        algorithm=name,
        progress=progress,
    )
    n_variables = session.open()
    outcome = session.run(ask(n_variables, session.labels))
    closed = session.finish()
    # a site that left reported no head; in this process its ledger is at hand
    heads = {site: ledger.head for site, ledger in ledgers.items()} | {
        site: LedgerHead(last.records, last.ledger_head.hex(), site, pinned[site].hex())
        for site, last in closed.items()
    }
    return FinishedRun(
        outcome=outcome,
        names=federation.sites[0].table.schema.names,
        rounds=session.rounds,
        dropouts=session.dropouts,
        bytes_sent_per_site=session.bytes_sent_per_site,
        ledgers={site: ledger.lines for site, ledger in ledgers.items()},
        heads=heads,
        seconds=time.perf_counter() - started,
    )


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
