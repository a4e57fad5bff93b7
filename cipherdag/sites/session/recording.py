"""One record in the ledger for every reply that leaves, whatever it is; else nothing leaves.

Leaks:
    Nothing: a refusal in a round is always the same, so that it answers no question.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cipherdag.errors import CipherdagError, OutputError, RefusedError
from cipherdag.protocol.messages import REPLIES, Refusal
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.set_up.bodies import Ready
from cipherdag.questions.question import question_kinds
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.record.release_kinds import REPLY_KINDS
from cipherdag.sites.session.admission import SET_UP
from cipherdag.sites.session.incoming import Incoming

if TYPE_CHECKING:
    from cipherdag.sites.session.admission import HeldSession

log = logging.getLogger("cipherdag.site")


def recorded(ledger: Ledger, reply: bytes, described: Mapping[str, Any]) -> bytes:
    """The reply, once it stands in the ledger; nothing where it cannot stand there."""
    try:
        ledger.append(content=reply, **described)
    except OutputError as error:
        log.error("nothing leaves: %s", error)  # noqa: TRY400 - its text is enough
        return b""
    return reply


def refusal(operation: str, error: type[CipherdagError], text: str) -> Refusal:
    """What a refusal says: its reason in the set-up; in a round one thing, whatever the reason."""
    if operation not in REPLIES or operation in SET_UP:
        return Refusal(error=error.__name__, message=text)
    return Refusal(error=RefusedError.__name__, message="")


def _shown(ready: Ready) -> tuple[int, str]:
    """How many values the end of a set-up shows, and what of its kind they add."""
    parts = (
        ("+label-positions", len(ready.labels)),
        ("+relations", sum(len(each.columns) for each in ready.relations)),
    )
    return 1 + sum(n for _, n in parts), "".join(kind for kind, n in parts if n)


def description(
    message: Incoming, held: HeldSession, *, kind: str = "", ready: Ready | None = None
) -> dict[str, Any]:
    """What `Ledger.append` is told of a reply, beside its bytes.

    Args:
        message: What is answered.
        held: The session whose keys the site holds.
        kind: What the reply is, if not the answer: ``refusal`` or ``repeat``.
        ready: The reply, where it ends the set-up: it shows positions of labels and relations.
    """
    plan = message.content if isinstance(message.content, Plan) else held.plan
    round_ = held.rounds.current if held.rounds is not None else None
    if message.operation not in REPLIES or message.operation in SET_UP:
        round_ = None
    kept = held.rounds.kept if held.rounds is not None else None
    closing = kept is not None and not kind and message.operation == "finish"
    answered = not kind and round_ is not None and message.operation in ("ask", "open")
    values, shown = (0, "") if kind or ready is None else _shown(ready)
    if not kind and round_ is not None and message.operation == "ask":
        kind = question_kinds(round_.question)
    kind = kind or REPLY_KINDS[message.operation] + shown
    digest = round_.declared.digest if round_ is not None else b""
    return {
        "session": message.session,
        "algorithm": plan.algorithm if plan is not None else "",
        "protection": plan.protection if plan is not None else "",
        "kind": kind,
        "round_number": round_.ask.number if round_ is not None else 0,
        "values": round_.declared.length if round_ is not None and answered else values,
        "sites": len(round_.declared.sites) if round_ is not None else 0,
        "digest": kept.digest if kept is not None and closing else digest,
        "question": round_.question.label if round_ is not None and answered else "",
    }
