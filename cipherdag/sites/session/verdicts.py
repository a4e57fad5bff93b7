"""A site's part in the verdicts of a round: it deals, or holds keys, or only reads them.

Leaks:
    A dealer's keys say nothing without one of the holders' secrets; a holder's shares say nothing
    without the other's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.errors import OpeningRefusedError, SpentKeyError
from cipherdag.privacy.comparison.keys import draw_blinds
from cipherdag.privacy.comparison.verdicts import pack
from cipherdag.protocol.messages import Compared, Dealt
from cipherdag.protocol.verdict_rounds import Roles, accepted

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import Declaration, WordVector
    from cipherdag.privacy.comparison.dealing import DealingKeys
    from cipherdag.privacy.key_graph import KeyGraph
    from cipherdag.privacy.sums import SiteAggregation
    from cipherdag.protocol.messages import Ask, Compare
    from cipherdag.questions.question import Question


@dataclass(slots=True)
class Part:
    """What a site does in one round of verdicts.

    Attributes:
        index: Its position.
        roles: Who has which role.
        number: The round.
        declared: What was asked, of which sites.
        question: What was asked.
    """

    index: int
    roles: Roles
    number: int
    declared: Declaration
    question: Question
    _compared: bool = False

    @property
    def deals(self) -> bool:
        """Whether the site blinds the sums, so that it must not see what is opened."""
        return self.index == self.roles.dealer

    def dealt(self, keys: DealingKeys, modulus: int) -> tuple[WordVector | None, Dealt | None]:
        """What a dealer adds to its answer, and the keys that it deals; neither at other sites."""
        if not self.deals:
            return None, None
        batch = self.roles.batch(self.declared, self.number, modulus)
        blinds = draw_blinds(batch)
        common, sealed = keys.deal(batch, blinds)
        return blinds, Dealt(common=common, sealed=sealed)

    def compared(
        self, request: Compare, keys: DealingKeys, aggregation: SiteAggregation
    ) -> Compared:
        """A holder's shares of the verdicts, found once.

        Raises:
            OpeningRefusedError: The site holds no keys in this round.
            SpentKeyError: It told its shares before.
            ForgedSumError: What was opened is not the sum of all sites' words.
            ComparisonKeyError: The keys are not those that the dealer made for this site.

        Leaks:
            Nothing without the other holder's shares; with them the verdicts.
        """
        if self.index not in self.roles.holders:
            raise OpeningRefusedError("this site holds no comparison keys in this round")
        if self._compared:
            raise SpentKeyError("the shares of this round's verdicts were told before")
        blinded = aggregation.blinded(request.blinded, self.declared)
        batch = self.roles.batch(self.declared, self.number, aggregation.modulus(self.declared))
        own = keys.received(batch, request.common, request.sealed)
        self._compared = True
        shares = accepted(self.question, len(self.declared.sites)).shares(own, blinded)
        padded = shares ^ keys.pad(batch, shares.size)
        return Compared(digest=self.declared.digest, shares=pack(padded))


@dataclass(frozen=True, slots=True)
class Parts:
    """What a site needs to take part in verdicts.

    Attributes:
        index: Its position.
        keys: Its keys to deal, and to receive what others deal.
        beacon: What roles follow from.
        graph: Who shares keys with whom.
    """

    index: int
    keys: DealingKeys = field(repr=False)
    beacon: bytes
    graph: KeyGraph = field(repr=False)

    def of(self, ask: Ask, declared: Declaration, question: Question) -> Part:
        """The site's part in a round.

        Raises:
            SiteUnreachableError: Too few sites are asked.
        """
        roles = Roles.of(self.beacon, ask.step, declared.sites, self.graph)
        return Part(self.index, roles, ask.number, declared, question)
