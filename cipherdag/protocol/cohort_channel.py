"""The coordinator's authenticated channel to a cohort: it signs, sends by an engine, and verifies.

Leaks:
    Nothing beyond the messages: who is written to, when, and how long the replies are.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cipherdag import errors
from cipherdag.errors import MalformedMessageError, SignatureError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import Body, decode
from cipherdag.protocol.engines.engine import Engine
from cipherdag.protocol.messages import (
    AWAITS,
    COORDINATOR,
    DENIED,
    MAX_REFUSAL,
    REPLIES,
    SHORT_BYTES,
    TOO_MANY_WAIT,
    WAITING,
    Refusal,
    Topic,
    open_envelope,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.plan import Member
from cipherdag.protocol.states import State, check_turn

Reply = TypeVar("Reply", bound=Body)

GARBAGE = "sent bytes that are not a message"
REMEDIES = {
    AWAITS: "After `cipherdag site approve` at that site, go on by `coordinator run --resume`.",
    DENIED: "Ask the people of the site: it does not send their reason.",
    TOO_MANY_WAIT: "Ask the people of the site to approve or deny what waits there.",
}


@dataclass(frozen=True, slots=True)
class Replies(Generic[Reply]):
    """Replies by position: bodies and raw envelopes, and why the others are missing."""

    bodies: dict[int, Reply]
    envelopes: dict[int, bytes]
    failures: dict[int, str]


@dataclass(slots=True)
class CohortChannel:
    """Exchanges one kind of message with some sites of a cohort, each known by its position in it.

    It waits ``timeout_s`` for the slowest site. ``identity`` is the coordinator's signing key,
    which the sites pin; ``states`` are those that the sites may be in, by `protocol.states`.
    """

    engine: Engine
    identity: SigningIdentity = field(repr=False)
    cohort: tuple[Member, ...]
    session: bytes
    timeout_s: float
    states: frozenset[State] = frozenset({State.CLOSED})
    _bytes: Counter[int] = field(default_factory=Counter)

    @property
    def bytes_received(self) -> dict[str, int]:
        """Bytes that came from each site so far, by name."""
        return {member.name: self._bytes[site] for site, member in enumerate(self.cohort)}

    def bytes_since(self, before: Mapping[str, int]) -> dict[str, int]:
        """Bytes that came from each site since `bytes_received` was ``before``."""
        return {name: count - before[name] for name, count in self.bytes_received.items()}

    def exchange(
        self, operation: Topic, bodies: Mapping[int, Body], kind: type[Reply]
    ) -> Replies[Reply]:
        """Send each site, by position, its message and read the replies, of one ``kind``.

        Sends nothing and raises the error of `states.refusal` where no site admits the message now.
        Raises SignatureError where a reply is not signed by its site. Else raises the error that a
        site's refusal names, but not RefusedError, which names none: that site is among the
        failures. Of several refusals it is the first that does not wait for a person.
        """
        following = check_turn(self.states, operation)
        sealed: dict[int, bytes] = {}
        messages: dict[str, bytes] = {}
        for position, body in bodies.items():
            # one signature serves all sites that get the same message
            if id(body) not in sealed:
                sealed[id(body)] = seal_envelope(
                    self.identity,
                    session=self.session,
                    sender=COORDINATOR,
                    topic=operation,
                    body=body,
                )
            messages[self.cohort[position].name] = sealed[id(body)]
        replies = self.engine.call(operation, messages, timeout_s=self.timeout_s)
        outcome: Replies[Reply] = Replies({}, {}, {})
        refusals: list[errors.CipherdagError] = []
        for position in bodies:
            member = self.cohort[position]
            reply = replies.get(member.name)
            if not isinstance(reply, bytes):
                outcome.failures[position] = "no reply" if reply is None else reply.reason
                continue
            self._bytes[position] += len(reply)
            try:
                body = self._read(member, reply, REPLIES[operation], kind)
            except MalformedMessageError:
                outcome.failures[position] = GARBAGE
                continue
            if isinstance(body, kind):
                outcome.bodies[position] = body
                outcome.envelopes[position] = reply
            elif isinstance(body, Refusal):
                refusal = refusal_error(body, member.name)
                if not isinstance(refusal, errors.RefusedError):
                    refusals.append(refusal)
                outcome.failures[position] = refusal.summary
        # a site that failed may be in the state before
        self.states = self.states | following if outcome.failures else following
        if refusals:
            raise min(refusals, key=lambda refusal: refusal.message in WAITING)
        return outcome

    def _read(
        self, member: Member, reply: bytes, topic: Topic, kind: type[Reply]
    ) -> Reply | Refusal:
        envelope = read_envelope(reply, topic)
        refused = envelope.topic == "refusal"
        try:
            body = open_envelope(
                envelope,
                identity=member.identity,
                session=self.session,
                sender=member.name,
                topic="refusal" if refused else topic,
            )
        except SignatureError as error:
            error.site = member.name
            raise
        return decode(body, Refusal, SHORT_BYTES) if refused else decode(body, kind)


def refusal_error(refusal: Refusal, site: str) -> errors.CipherdagError:
    """A site's refusal as an error here, without a text that is long or steers a terminal."""
    kind = getattr(errors, refusal.error, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.CipherdagError)):
        return errors.SiteComputationError("it refused with an unknown error", site=site)
    text = refusal.message if len(refusal.message) <= MAX_REFUSAL else ""
    error = kind(text if text and text.isprintable() else kind.summary, site=site)
    error.remedy = REMEDIES.get(refusal.message, error.remedy)
    return error
