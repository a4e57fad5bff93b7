"""From blinded sums to verdicts, at the coordinator, which holds no key.

Leaks:
    The blinded sums, which are noise, to the coordinator and both holders; the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cipherdag.errors import ShareError, SiteUnreachableError
from cipherdag.privacy.aggregation import Aggregate
from cipherdag.privacy.comparison.dealing import SEALED_BYTES
from cipherdag.privacy.comparison.keys import common_bytes
from cipherdag.protocol.messages import Compare, Compared, Verdicts
from cipherdag.protocol.verdict_rounds import Roles, read_verdicts
from cipherdag.protocol.wire import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.privacy.aggregation import Declaration
    from cipherdag.privacy.comparison.batch import Comparisons
    from cipherdag.protocol.courier import Courier
    from cipherdag.protocol.messages import Share
    from cipherdag.protocol.plan import Plan
    from cipherdag.questions.question import Question


@dataclass(frozen=True, slots=True)
class Comparing:
    """Finds the verdicts of one round.

    Attributes:
        courier: Carries the messages.
        plan: The plan.
        declared: What was asked, of which sites.
        roles: Who deals and who holds keys.
        batch: What the keys are for.
        question: What was asked.
    """

    courier: Courier
    plan: Plan
    declared: Declaration
    roles: Roles
    batch: Comparisons
    question: Question

    def check(self, position: int, share: Share) -> None:
        """Raise ShareError unless the dealer sent keys, of the right length, and nobody else."""
        dealt = share.dealt
        if (dealt is not None) != (position == self.roles.dealer):
            raise ShareError("its comparison keys are missing, or it deals out of turn")
        if dealt is not None and (
            len(dealt.common) != common_bytes(self.batch)
            or any(len(own) != SEALED_BYTES for own in dealt.sealed)
        ):
            raise ShareError("its comparison keys are cut short or too long")

    def verdicts(self, blinded: bytes, shares: Mapping[int, Share]) -> Aggregate:
        """The verdicts, and what the sites read them from.

        Args:
            blinded: The opened words of the blinded sums.
            shares: Every site's share; that of the dealer has the keys.

        Raises:
            SiteUnreachableError: A holder did not answer. The sums that its keys are for were
                opened, blinded, so nobody is asked for them again.
            ForgedSumError: A holder's shares are of other sums.
            ShareError: A holder's shares are cut short or too long.
            AggregateRangeError: A sum is none that the sites can produce.
        """
        dealt = shares[self.roles.dealer].dealt
        if dealt is None:
            raise ShareError("the dealer's comparison keys are missing")
        requests = {
            holder: Compare(
                digest=self.declared.digest, blinded=blinded, common=dealt.common, sealed=sealed
            )
            for holder, sealed in zip(self.roles.holders, dealt.sealed, strict=True)
        }
        replies = self.courier.exchange("compare", requests, Compared)
        dealer = self.plan.cohort[self.roles.dealer].name
        for holder, reason in replies.failures.items():
            raise SiteUnreachableError(
                f"it holds the keys of round {self.batch.number}'s verdicts, which '{dealer}' "
                f"dealt, and did not answer ({reason}); no other site can",
                site=self.plan.cohort[holder].name,
            )
        first, second = (replies.envelopes[holder] for holder in self.roles.holders)
        content = encode(Verdicts(envelopes=(first, second)))
        values = read_verdicts(content, self.plan, self.declared, self.roles, self.question)
        return Aggregate(values=values, content=content)
