"""A round of secure tests as every party derives it from public values, and a site's part in it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.errors import ParameterError
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import ReadVerdicts, Verdicts, most_bytes
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, digest, unpack
from cipherdag.protocol.asked import Context, Recall, secure_question
from cipherdag.protocol.messages import Ask, Secure, Secured
from cipherdag.protocol.plan import Plan
from cipherdag.questions.question import Question

MOST_DEALT_BYTES: Final = MAX_MESSAGE_BYTES * 3 // 4
"""Most dealt bytes of a batch: a computing party gets them with its share of the masked sums."""


def context_of(plan: Plan, transcript: bytes, roles: Roles, rows: Sequence[bytes]) -> Context:
    """What a run's secure tests are bound to, and the bits that were found before.

    ``rows`` are the sites' digests of rows, empty where one keeps none, ``transcript`` of all keys.
    """
    about = digest(b"rows", plan.cohort_digest, *rows) if all(rows) else b""
    run = digest(b"run", plan.digest, transcript)
    identities = [member.identity for member in plan.cohort]
    return Context(about, run, roles, identities, plan.names)


def batch_of(context: Context, ask: Ask, recall: Recall, sums: bytes) -> Batch:
    """The batch that computes the unknown bits of a question, as every party derives it.

    ``sums`` is the digest of all that was opened before the question. Each round is an attempt of
    its own. Raises ParameterError where it asks for sums too, or keys for so many comparisons do
    not fit a message.
    """
    asked = secure_question(ask.content, sums, recall.rest_names)
    predicates = cast("Question", recall.rest).predicates(len(ask.participants))
    at = ask.step, ask.number, ask.participants
    batch = Batch(context.session, asked, *at, context.roles, predicates)
    if batch.dealt_bytes > MOST_DEALT_BYTES:
        raise ParameterError(
            f"keys of {predicates.n_comparisons} comparisons do not fit a message of the run"
        )
    return batch


@dataclass(frozen=True, slots=True)
class SecureTests:
    """A site's part in the secure tests of a run: what they are bound to, and its keys."""

    context: Context
    party: Party = field(repr=False)

    def verdicts(
        self, previous: bytes, batch: Batch, read: ReadVerdicts
    ) -> tuple[bytes, FloatVector]:
        """Read by ``read`` the verdicts that the coordinator relays; raises as `Party.accept`."""
        opened = unpack(previous, most_bytes(batch, Verdicts), exactly=False)
        identities = self.context.identities
        return opened, self.party.accept(opened, batch, identities, read).astype(np.float64)


def stepped(seat: Seat, request: Secure) -> Secured:
    """The next step of this site's role, which is its last in the round if it fails."""
    steps = {
        "prepare": seat.prepare,
        "square": seat.square,
        "compare": seat.compare,
        "open": seat.open,
    }
    return Secured(digest=request.digest, content=steps[request.verb](request.content))
