"""The coordinator's part in a set-up: it relays, and learns what is public.

Leaks:
    The coordinator sees public keys, ciphertexts, the lot, and whether schemas are equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from cipherdag.errors import CipherdagError, KeyAgreementError, SchemaMismatchError
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.keys.pairkeys import EphemeralKeys, PairKey, agree_as_responder
from cipherdag.privacy.mpc.batch import COORDINATOR, TWO_SITES, Roles
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.wire import Body, digest
from cipherdag.protocol.messages import Topic
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.secure_tests import context_of
from cipherdag.protocol.set_up_messages import (
    Chance,
    Chances,
    Commitments,
    DealerKeys,
    Linked,
    Links,
    Offer,
    Offers,
    Ready,
    Sealed,
    Seals,
    beacon_of,
)

Reply = TypeVar("Reply", bound=Body)


class Exchange(Protocol):
    """Sends every site of the cohort one message, or each its own, and returns all replies."""

    def __call__(
        self, operation: Topic, body: Body | Mapping[int, Body], kind: type[Reply]
    ) -> tuple[list[Reply], tuple[bytes, ...]]:
        """The replies in the order of the cohort, and as they came; raises if one is missing."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """The coordinator's outcome of a set-up, and what each site said in the end.

    ``rows`` are the sites' digests of their rows. ``keys`` are the coordinator's keys with both
    sites, where it deals for two.
    """

    transcript: bytes
    beacon: bytes
    rows: tuple[bytes, ...]
    ready: list[Ready]
    keys: dict[int, PairKey] = field(default_factory=dict, repr=False)


def set_up(plan: Plan, exchange: Exchange) -> Agreed:
    """Have the sites of a plan agree on their keys; raises as ``exchange``, too.

    KeyAgreementError where a site answered another plan, or revealed another number than it
    committed to, SchemaMismatchError where its keyed schema digest differs.
    """
    agreed = _agreed(plan, exchange)
    for member, reply in zip(plan.cohort, agreed.ready, strict=True):
        if reply != agreed.ready[0]:
            raise SchemaMismatchError("its schema differs from the others'", site=member.name)
    return agreed


def _agreed(plan: Plan, exchange: Exchange) -> Agreed:
    offers, raw = exchange("invite", plan, Offer)
    if any(offer.plan_digest != plan.digest for offer in offers):
        raise KeyAgreementError("a site answered another plan")
    transcript = digest(b"offers", plan.digest, *raw)
    if plan.key_bounds is not None:
        return _set_up_sparse(plan, exchange, offers, raw, transcript)
    dealer_keys = dealer = None
    if len(plan.cohort) == TWO_SITES:
        dealer_keys = EphemeralKeys.generate()
        dealer = DealerKeys(dealer_keys.x25519_public, dealer_keys.mlkem_public)
    seals, raw = exchange("offers", Offers(envelopes=raw, dealer=dealer), Seals)
    keys = {} if dealer_keys is None else _dealt_by(plan, dealer_keys, offers, seals, transcript)
    transcript = digest(b"sealed", transcript, *raw)
    beacon = beacon_of(
        plan, [offer.commitment for offer in offers], [seal.chance for seal in seals]
    )
    ready, _ = exchange("sealed", Sealed(envelopes=raw), Ready)
    return Agreed(transcript, beacon, tuple(offer.rows for offer in offers), ready, keys)


def graph_of(plan: Plan, beacon: bytes) -> KeyGraph:
    """The key graph of a run."""
    if plan.key_bounds is not None:
        return KeyGraph.drawn(beacon, len(plan.cohort), plan.key_bounds.degree)
    return KeyGraph.complete(len(plan.cohort))


def roles_of(plan: Plan, beacon: bytes) -> Roles:
    """The roles in the secure tests of a run."""
    return Roles.draw(beacon, range(len(plan.cohort)))


def coordinator_party(plan: Plan, agreed: Agreed) -> Party | None:
    """The coordinator as the dealer of two sites; None for others."""
    if not agreed.keys:
        return None
    context = context_of(plan, agreed.transcript, roles_of(plan, agreed.beacon), agreed.rows)
    return Party(context.session, COORDINATOR, agreed.keys, context.roles, plan.names)


def _dealt_by(
    plan: Plan,
    dealer_keys: EphemeralKeys,
    offers: Sequence[Offer],
    seals: Sequence[Seals],
    transcript: bytes,
) -> dict[int, PairKey]:
    """The coordinator's keys with both sites; KeyAgreementError without their ciphertexts."""
    keys = {}
    for site, (offer, sealed) in enumerate(zip(offers, seals, strict=True)):
        try:
            keys[site] = agree_as_responder(
                dealer_keys, offer.x25519, sealed.dealer, transcript, site, COORDINATOR
            )
        except CipherdagError as error:
            error.site = plan.cohort[site].name
            raise
    return keys


def _set_up_sparse(
    plan: Plan,
    exchange: Exchange,
    offers: Sequence[Offer],
    raw: tuple[bytes, ...],
    transcript: bytes,
) -> Agreed:
    """The set-up of a sparse graph, which is drawn once all keys are offered."""
    chances, raw = exchange("commitments", Commitments(envelopes=raw), Chance)
    transcript = digest(b"chances", transcript, *raw)
    beacon = beacon_of(
        plan, [offer.commitment for offer in offers], [each.chance for each in chances]
    )
    links, _ = exchange("chances", Chances(envelopes=raw), Links)
    graph, roles = graph_of(plan, beacon), roles_of(plan, beacon)
    ready, _ = exchange("linked", relayed(plan, links, graph, roles), Ready)
    return Agreed(transcript, beacon, tuple(offer.rows for offer in offers), ready)


def relayed(plan: Plan, sent: Sequence[Links], graph: KeyGraph, roles: Roles) -> dict[int, Linked]:
    """The links that each site is sent, of all that the sites made.

    KeyAgreementError where a site made another number of links than the lot gave it.
    """
    bound: list[dict[int, bytes]] = []
    for site, links in enumerate(sent):
        to = later(graph, roles, site)
        if len(links.links) != len(to) or len(links.secrets) != (0 if site else len(to)):
            name = plan.cohort[site].name
            raise KeyAgreementError("its links are not those that the lot gave it", site=name)
        bound.append(dict(zip(to, links.links, strict=True)))
    first = sent[0]
    return {
        site: Linked(
            links=tuple([bound[other][site] for other in earlier(graph, roles, site)]),
            secrets=first.secrets[site - 1] if site else b"",
            content=first.content,
        )
        for site in range(len(sent))
    }


def earlier(graph: KeyGraph, roles: Roles, site: int) -> list[int]:
    """The sites that send a link to one: those before it with which it shares a key."""
    return [other for other in _linked(graph, roles, site) if other < site]


def later(graph: KeyGraph, roles: Roles, site: int) -> list[int]:
    """The sites that one sends a link to: those after it with which it shares a key."""
    return [other for other in _linked(graph, roles, site) if other > site]


def _linked(graph: KeyGraph, roles: Roles, site: int) -> list[int]:
    """Its neighbours, the first site, and all with a role in secure tests; for these all sites."""
    if site == 0 or site in roles.sites:
        return [other for other in range(len(graph.ring)) if other != site]
    return sorted({0, *graph.neighbours(site), *roles.sites})
