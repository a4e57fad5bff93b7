"""Rounds whose sums stay closed: who has which role, and the verdicts that both holders signed.

A round of verdicts goes as any other until its sums are opened; but one site asked, the dealer,
blinded them, and sent comparison keys for two others, the holders. Each of these evaluates its keys
at the blinded sums, once, and signs its shares of the verdicts; the coordinator relays both, and
every site reads the verdicts from them. Who is dealer and who holds keys follows from numbers that
the sites commit to before any of them is told.

Leaks:
    The verdicts, to everybody. The dealer is never sent what was opened: it could take off what it
    added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import (
    AggregateRangeError,
    CipherdagError,
    ForgedSumError,
    ShareError,
    SiteUnreachableError,
)
from cipherdag.privacy.comparison.accepted import Accepted
from cipherdag.privacy.comparison.batch import Comparisons
from cipherdag.privacy.comparison.roles import in_turn
from cipherdag.privacy.comparison.verdicts import unpack
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.protocol.messages import Compared, Verdicts, open_envelope, read_envelope
from cipherdag.protocol.wire import decode
from cipherdag.questions.closed.by_count import joined
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.question import Resampled
from cipherdag.questions.verdicts import FEWEST_SITES, VerdictQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.privacy.aggregation import Declaration, FloatVector
    from cipherdag.protocol.plan import Member, Plan
    from cipherdag.questions.question import Question


@dataclass(frozen=True, slots=True)
class Roles:
    """Positions of the sites that find the verdicts of a round."""

    dealer: int
    holders: tuple[int, int]

    @classmethod
    def of(
        cls, beacon: bytes, step: int, sites: Sequence[int], graph: KeyGraph | None = None
    ) -> Roles:
        """Who has which role in a step of the plan, of the sites asked.

        The first in turn deals; the next ones that share keys with it, and with each other, hold.

        Args:
            beacon: What the turns follow from.
            step: Which question of the plan.
            sites: Positions of the sites asked.
            graph: Who shares a key with whom; every two sites by default.

        Raises:
            SiteUnreachableError: Fewer than three are asked that share keys.
        """
        if graph is None:
            graph = KeyGraph.complete(max(sites, default=0) + 1)
        turns = in_turn(beacon, step, sites, len(sites))
        for dealer in turns:
            known = frozenset(graph.peers(dealer, turns))
            for first in (own for own in turns if own in known):
                both = known & frozenset(graph.peers(first, known))
                if both:
                    return cls(dealer, (first, next(own for own in turns if own in both)))
        raise SiteUnreachableError(
            f"{len(sites)} sites remain, and verdicts need {FEWEST_SITES}: a dealer and two "
            "holders of keys"
        )

    def batch(self, declared: Declaration, number: int, modulus: int) -> Comparisons:
        """What the keys of the round are for."""
        return Comparisons(
            session=declared.digest,
            number=number,
            dealer=self.dealer,
            holders=self.holders,
            modulus=modulus,
            count=declared.length,
        )


def accepted(question: Question, n_sites: int) -> Accepted:
    """The sums over so many sites that the verdicts of a question are true of."""
    found = []
    for part in parts_of(question):
        inner = part.question if isinstance(part, Resampled) else part
        if isinstance(inner, VerdictQuestion):
            found.append(inner.sets(n_sites))
    return Accepted(*joined(found))


def most_bytes(declared: Declaration) -> int:
    """Bytes of `Verdicts` at most."""
    return declared.length + 4096


def read_verdicts(
    content: bytes, plan: Plan, declared: Declaration, roles: Roles, question: Question
) -> FloatVector:
    """The verdicts of a round, 0 or 1, shape (declared.length,).

    Args:
        content: `Verdicts`, as the coordinator relays it.
        plan: The plan, which pins the holders' keys.
        declared: What was asked.
        roles: Who held keys.
        question: What was asked, with the sums that each verdict is true of.

    Raises:
        ForgedSumError: A holder did not sign its shares, or they are for another round.
        ShareError: A share is cut short or too long.
        AggregateRangeError: A sum is none that the sites can produce.
    """
    envelopes = decode(content, Verdicts).envelopes
    first, second = (
        _signed(envelope, plan.cohort[holder], plan.session, declared)
        for envelope, holder in zip(envelopes, roles.holders, strict=True)
    )
    try:
        bits = accepted(question, len(declared.sites)).verdicts(first, second)
    except AggregateRangeError as error:
        dealer, *holders = (plan.cohort[own].name for own in (roles.dealer, *roles.holders))
        held = " and ".join(f"'{name}'" for name in holders)
        raise AggregateRangeError(f"{error.message}: '{dealer}' and {held}") from None
    return bits.astype(np.float64)


def _signed(envelope: bytes, member: Member, session: bytes, declared: Declaration) -> bytes:
    """A holder's shares of this round's verdicts, by its own signature."""
    try:
        body = open_envelope(
            read_envelope(envelope),
            identity=member.identity,
            session=session,
            sender=member.name,
            topic="compared",
        )
        said = decode(body, Compared)
    except CipherdagError as error:
        raise ForgedSumError(
            f"its shares of the verdicts: {error.message}", site=member.name
        ) from None
    if said.digest != declared.digest:
        raise ForgedSumError(
            "its shares of the verdicts are not of this round's sums", site=member.name
        )
    try:
        unpack(said.shares, 2 * declared.length)
    except ShareError as error:
        error.site = member.name
        raise
    return said.shares
