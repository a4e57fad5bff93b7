"""The coordinator's part in a set-up: it relays, and learns what is public.

Leaks:
    The coordinator sees public keys, ciphertexts, the lot, and whether schemas are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from cipherdag.errors import KeyAgreementError
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.protocol.set_up.beacon import beacon_of
from cipherdag.protocol.set_up.bodies import (
    Chance,
    Chances,
    Commitments,
    Linked,
    Links,
    Offer,
    Offers,
    Ready,
    Sealed,
    Seals,
)
from cipherdag.protocol.wire import Body, digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.protocol.messages import Topic
    from cipherdag.protocol.plan import Plan

Reply = TypeVar("Reply", bound=Body)


class Exchange(Protocol):
    """Asks every site of the cohort, one thing or each its own, and has all their replies."""

    def __call__(
        self, operation: Topic, body: Body | Mapping[int, Body], kind: type[Reply]
    ) -> tuple[list[Reply], tuple[bytes, ...]]:
        """The replies in the order of the cohort, and as they came; raises if one is missing."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """What the coordinator has of a set-up, and what each site said in the end."""

    transcript: bytes
    beacon: bytes
    public_context: bytes
    ready: list[Ready]


def set_up(plan: Plan, exchange: Exchange) -> Agreed:
    """Have the sites of a plan agree on their keys.

    Raises:
        KeyAgreementError: A site answered another plan, or told another number than it committed
            to.
        CipherdagError: As ``exchange``.
    """
    offers, raw = exchange("invite", plan, Offer)
    if any(offer.plan_digest != plan.digest for offer in offers):
        raise KeyAgreementError("a site answered another plan")
    transcript = digest(b"offers", plan.digest, *raw)
    if plan.key_bounds is not None:
        return _by_lot(plan, exchange, offers, raw, transcript)
    seals, raw = exchange("offers", Offers(envelopes=raw), Seals)
    transcript = digest(b"sealed", transcript, *raw)
    beacon = beacon_of(plan, [own.commitment for own in offers], [own.chance for own in seals])
    ready, _ = exchange("sealed", Sealed(envelopes=raw), Ready)
    return Agreed(transcript, beacon, seals[0].public_context, ready)


def graph_of(plan: Plan, beacon: bytes) -> KeyGraph:
    """Who shares a key with whom in a run."""
    if plan.key_bounds is not None:
        return KeyGraph.drawn(beacon, len(plan.cohort), plan.key_bounds.degree)
    return KeyGraph.complete(len(plan.cohort))


def _by_lot(
    plan: Plan,
    exchange: Exchange,
    offers: Sequence[Offer],
    raw: tuple[bytes, ...],
    transcript: bytes,
) -> Agreed:
    """The set-up of a sparse graph, which is drawn once all keys are offered."""
    chances, raw = exchange("commitments", Commitments(envelopes=raw), Chance)
    transcript = digest(b"chances", transcript, *raw)
    beacon = beacon_of(plan, [own.commitment for own in offers], [own.chance for own in chances])
    links, _ = exchange("chances", Chances(envelopes=raw), Links)
    ready, _ = exchange("linked", relayed(plan, links, graph_of(plan, beacon)), Ready)
    return Agreed(transcript, beacon, b"", ready)


def relayed(plan: Plan, sent: Sequence[Links], graph: KeyGraph) -> dict[int, Linked]:
    """What each site is sent of all links.

    Raises:
        KeyAgreementError: A site made another number of links than the lot gave it.
    """
    bound: list[dict[int, bytes]] = []
    for site, own in enumerate(sent):
        to = later(graph, site)
        if len(own.links) != len(to) or len(own.secrets) != (0 if site else len(to)):
            name = plan.cohort[site].name
            raise KeyAgreementError("its links are not those that the lot gave it", site=name)
        bound.append(dict(zip(to, own.links, strict=True)))
    first = sent[0]
    return {
        site: Linked(
            links=tuple([bound[other][site] for other in earlier(graph, site)]),
            secrets=first.secrets[site - 1] if site else b"",
            content=first.content,
        )
        for site in range(len(sent))
    }


def earlier(graph: KeyGraph, site: int) -> list[int]:
    """The sites that send a link to one: its neighbours before it, and the first of all."""
    near = [other for other in graph.neighbours(site) if 0 < other < site]
    return [0, *near] if site else []


def later(graph: KeyGraph, site: int) -> list[int]:
    """The sites that one sends a link to: its neighbours after it; of the first, all."""
    if site == 0:
        return list(range(1, len(graph.ring)))
    return [other for other in graph.neighbours(site) if other > site]
