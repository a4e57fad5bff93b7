"""A message that came in at a site, opened once: its session, and what it asks or why it may not.

Opening never raises: what is wrong with a message is told where its turn comes among the other
reasons to refuse it (`admission`), and until then nobody gets a request out of it.

Leaks:
    Nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from cipherdag.errors import MalformedMessageError, PrivacyError, SignatureError
from cipherdag.protocol import messages
from cipherdag.protocol.plan import SESSION_BYTES
from cipherdag.protocol.wire import Body, decode


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message, whoever sent it.

    Attributes:
        operation: What it was sent for, whether or not there is such an operation.
        session: The session it claims, so that even a refusal names it; zeros where unreadable.
        digest: SHA-256 of all its bytes.
        signed: Whether the coordinator signed it, for this operation and this session.
        content: The request, strictly decoded; or what is wrong with the message.
    """

    operation: str
    session: bytes
    digest: bytes
    signed: bool
    content: Body | PrivacyError = field(repr=False)

    @property
    def request(self) -> Body:
        """What the coordinator asks; raises what is wrong with the message, if anything is."""
        if isinstance(self.content, PrivacyError):
            raise self.content
        return self.content


def open_message(operation: str, message: bytes, *, coordinator: bytes) -> Incoming:
    """Check length, form, version, topic, sender, signature and body, in this order.

    Args:
        operation: What it was sent for; a signed message of another topic is refused.
        message: A signed envelope of the coordinator, or any other bytes.
        coordinator: The coordinator's pinned public key, 32 bytes.
    """
    session, signed = bytes(SESSION_BYTES), False
    content: Body | PrivacyError
    try:
        envelope = messages.read_envelope(message)
        session, sender = envelope.session, messages.COORDINATOR
        body = messages.open_envelope(
            envelope, identity=coordinator, session=session, sender=sender, topic=operation
        )
        signed = True
        content = decode(body, messages.REQUESTS.get(operation, Body))
    except (MalformedMessageError, SignatureError) as error:
        content = error
    return Incoming(operation, session, hashlib.sha256(message).digest(), signed, content)
