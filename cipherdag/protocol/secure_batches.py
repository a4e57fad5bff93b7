"""What a round of secure tests asks, as the coordinator and every site derive it.

Leaks:
    Nothing: all of it is public.
"""

from __future__ import annotations

from typing import Final

from cipherdag.errors import ParameterError
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.protocol.limits import MAX_MESSAGE_BYTES
from cipherdag.protocol.messages import Ask
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.wire import digest
from cipherdag.questions.question import Question

MOST_DEALT_BYTES: Final = MAX_MESSAGE_BYTES * 3 // 4
"""Of one batch: a holder is sent them with its share of the masked sums."""


def session_of(plan: Plan, transcript: bytes) -> bytes:
    """What the secure tests of a run are bound to: its plan, and all keys, 32 bytes."""
    return digest(b"secure tests", plan.digest, transcript)


def batch_of(session: bytes, roles: Roles, ask: Ask, question: Question, sums: bytes) -> Batch:
    """One attempt at a question, as every party derives it.

    A question is that of the plan after all that was opened before; an attempt is a round.

    Args:
        session: As `session_of`.
        roles: Who has which role.
        ask: The request.
        question: What is asked.
        sums: Digest of all sums and verdicts before.

    Raises:
        ParameterError: It asks for sums too, or keys for so many comparisons do not fit a message.
    """
    asked = digest(b"secure question", ask.content, sums)
    predicates = question.predicates(len(ask.participants))
    batch = Batch(session, asked, ask.step, ask.number, ask.participants, roles, predicates)
    if batch.dealt_bytes > MOST_DEALT_BYTES:
        raise ParameterError(
            f"keys of {predicates.n_comparisons} comparisons do not fit a message of the run"
        )
    return batch
