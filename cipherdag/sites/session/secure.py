"""A site's part in the secure tests of a run: which batch a round is, and the bits of the last one.

Leaks:
    See `cipherdag.privacy.mpc.seat`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import Verdicts, most_bytes
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.protocol.messages import Ask, Secure, Secured
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.secure_batches import batch_of, session_of
from cipherdag.protocol.wire import unpack
from cipherdag.questions.question import Question


@dataclass(frozen=True, slots=True)
class SecureTests:
    """What a site takes part in them by.

    Attributes:
        roles: Who has which role.
        party: This site, with its keys.
    """

    roles: Roles
    party: Party = field(repr=False)

    def begun(
        self, plan: Plan, transcript: bytes, ask: Ask, question: Question, sums: bytes
    ) -> Seat:
        """This site's part in a round; that in the round before has ended.

        Args:
            plan: The plan.
            transcript: Digest of the key agreement.
            ask: The request.
            question: What is asked.
            sums: Digest of all sums and verdicts before.

        Raises:
            ReplayError: The question was answered before, in a way that may not be repeated.
            CohortError: A site with a role is not asked.
        """
        batch = batch_of(session_of(plan, transcript), self.roles, ask, question, sums)
        return self.party.begin(batch)

    def verdicts(self, previous: bytes, batch: Batch, plan: Plan) -> tuple[bytes, FloatVector]:
        """What the coordinator says was found, and the verdicts in it; checked.

        Raises:
            MalformedMessageError, ForgedSumError, ReplayError: As `Party.accept`.
        """
        opened = unpack(previous, most_bytes(batch, Verdicts), exactly=False)
        identities = [member.identity for member in plan.cohort]
        return opened, self.party.accept(opened, batch, identities).astype(np.float64)


def stepped(seat: Seat, request: Secure) -> Secured:
    """The next step of this site's role, which is its last in the round if it fails."""
    steps = {
        "prepare": seat.prepare,
        "square": seat.square,
        "compare": seat.compare,
        "open": seat.open,
    }
    return Secured(digest=request.digest, content=steps[request.verb](request.content))
