"""Records a site's replies in its ledger, and makes its refusals.

Leaks:
    A refusal names its error in the set-up; in a round it is always the same.
"""

from __future__ import annotations

import logging

from cipherdag.errors import CipherdagError, OutputError, RefusedError
from cipherdag.protocol.messages import REPLIES, Refusal
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.set_up_messages import Ready
from cipherdag.protocol.states import SET_UP
from cipherdag.sites.record.ledger import REPLY_KINDS, Ledger
from cipherdag.sites.session.admission import Incoming, SiteSession

log = logging.getLogger("cipherdag.site")


def refusal(operation: str, error: type[CipherdagError], text: str) -> Refusal:
    """A refusal: with its reason in the set-up; in a round the same, whatever the reason."""
    if operation not in REPLIES or operation in SET_UP:
        return Refusal(error=error.__name__, message=text)
    return Refusal(error=RefusedError.__name__, message="")


def recorded(
    ledger: Ledger,
    reply: bytes,
    message: Incoming,
    session: SiteSession,
    *,
    kind: str = "",
    ready: Ready | None = None,
) -> bytes:
    """The reply, once it stands in the ledger; nothing where it cannot stand there.

    ``kind`` is what the reply is, if not the answer: ``refusal`` or ``repeat``. ``ready`` is the
    reply that ends the set-up: it shows positions of labels and relations.
    """
    plan = message.content if isinstance(message.content, Plan) else session.plan
    round_ = session.rounds.current if session.rounds is not None else None
    if message.operation not in REPLIES or message.operation in SET_UP:
        round_ = None
    record = session.rounds.record if session.rounds is not None else None
    closing = record is not None and not kind and message.operation == "finish"
    answered = not kind and round_ is not None and message.operation in ("ask", "open")
    values, shown = (0, "") if kind or ready is None else _shown(ready)
    if not kind and round_ is not None and message.operation == "ask":
        kind = round_.question.kind
    digest = round_.declared.digest if round_ is not None else b""
    try:
        ledger.append(
            kind=kind or REPLY_KINDS[message.operation] + shown,
            content=reply,
            session=message.session,
            algorithm=plan.algorithm if plan is not None else "",
            protection=plan.protection if plan is not None else "",
            round_number=round_.ask.number if round_ is not None else 0,
            values=round_.declared.length if round_ is not None and answered else values,
            sites=len(round_.declared.sites) if round_ is not None else 0,
            digest=record.digest if record is not None and closing else digest,
            question=round_.question.label if round_ is not None and answered else "",
        )
    except OutputError as error:
        log.error("nothing leaves: %s", error)  # noqa: TRY400 - its text is enough
        return b""
    return reply


def _shown(ready: Ready) -> tuple[int, str]:
    """How many values the last reply of a set-up shows, and their kinds as the ledger has them."""
    parts = (
        ("+label-positions", len(ready.labels)),
        ("+relations", sum(len(each.columns) for each in ready.relations)),
    )
    return 1 + sum(n for _, n in parts), "".join(kind for kind, n in parts if n)
