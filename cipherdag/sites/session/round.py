"""One round at a site, and what a site with a folder does about its bits.

It recalls them, counts them, and keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cipherdag.privacy.aggregation import Declaration
from cipherdag.privacy.mpc.messages import Signed, Verdicts
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.protocol.asked import Answers, Context, Recall, encoded
from cipherdag.protocol.messages import Ask
from cipherdag.questions.question import Question
from cipherdag.sites.policy.usage import BitBudget
from cipherdag.sites.record.asked_bits import AskedBits


@dataclass(slots=True)
class Round:
    """The round that was answered last.

    Where sums are never opened ``recall`` is what is known of its bits, and ``seat`` this site's
    part in finding the others.
    """

    ask: Ask
    declared: Declaration
    content: bytes
    question: Question
    recall: Recall | None = None
    seat: Seat | None = field(default=None, repr=False)


@dataclass(slots=True)
class FoundBits:
    """The record and the budget of a site, in one session.

    ``index`` is this site's position in the cohort, and ``context`` what its bits are about.
    """

    session: bytes
    index: int
    context: Context
    asked: AskedBits
    budget: BitBudget
    _before: Answers | None = field(default=None, repr=False)

    def lacking(self, current: Round, recall: Recall) -> tuple[bytes, ...]:
        """Bits of a question that this site knows and the coordinator did not tell, as lines.

        Where there are none, the bits that are to be found are counted.

        Raises:
            ForgedSumError: A bit that was told is another one here.
            PolicyRefusedError: More would be found than the policy allows.
            SiteNotReadyError: The record cannot be read.
        """
        sites = current.ask.participants
        self._before = self._before or self.asked.of(self.context)
        if lines := recall.lacks(self._before, sites):
            return encoded(lines)
        if recall.rest is not None:
            self.budget.spend(self.session, recall.rest, sites)
        return ()

    def keep(self, current: Round, sums: bytes, said: Signed | Verdicts) -> None:
        """Record bits that were signed by this site, or by both holders.

        Bits that differ from earlier ones are recorded, too: whoever tries on would learn by which.

        Raises:
            ForgedSumError: A bit differs from an earlier one; nothing leaves, now or in later runs.
            OutputError: The file cannot be written; then nothing may leave.
        """
        recall, seat = current.recall, current.seat
        if recall is not None and seat is not None:
            about = seat.batch, current.content, sums, recall.names
            self.asked.write(self.context, self.context.line(*about, said, self.index))
            packed = np.frombuffer(said.bits, dtype=np.uint8)
            recall.values(np.unpackbits(packed, count=len(recall.positions)).astype(np.float64))
