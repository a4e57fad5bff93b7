"""What a round of secure tests asks, as the coordinator and every site derive it.

Leaks:
    Nothing: all of it is public.
"""

from __future__ import annotations

from typing import Final

from cipherdag.errors import ParameterError
from cipherdag.predicates import Predicates
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.protocol.limits import MAX_MESSAGE_BYTES
from cipherdag.protocol.messages import Ask
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.wire import digest
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.question import Question, Resampled
from cipherdag.questions.verdicts import VerdictQuestion

MOST_DEALT_BYTES: Final = MAX_MESSAGE_BYTES * 3 // 4
"""Of one batch: a holder is sent them with its share of the masked sums."""


def predicates_of(question: Question, n_sites: int) -> Predicates:
    """What is asked of the sums over so many sites, of a bundle part by part.

    Raises:
        ParameterError: It asks for sums too, or for more than one batch finds.
    """
    found = []
    for part in parts_of(question):
        inner = part.question if isinstance(part, Resampled) else part
        if not isinstance(inner, VerdictQuestion):
            raise ParameterError("sums are opened, and verdicts found, but not in one round")
        found.append(inner.predicates(n_sites))
    return Predicates.joined(found) if len(found) > 1 else found[0]


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
        ParameterError: As `predicates_of`, or keys for so many comparisons do not fit a message.
    """
    asked = digest(b"secure question", ask.content, sums)
    predicates = predicates_of(question, len(ask.participants))
    batch = Batch(session, asked, ask.step, ask.number, ask.participants, roles, predicates)
    if batch.dealt_bytes > MOST_DEALT_BYTES:
        raise ParameterError(
            f"keys of {predicates.n_comparisons} comparisons do not fit a message of the run"
        )
    return batch
