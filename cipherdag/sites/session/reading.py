"""A site reads here what every site is sent: the messages of the set-up, and the last sum.

A site of its own reads all itself; sites of one process may share it (`federation.shared_reading`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cipherdag.arrays import FloatVector
from cipherdag.privacy.aggregation import Declaration
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import ReadVerdicts, read_verdicts
from cipherdag.privacy.sums import SiteAggregation
from cipherdag.privacy.wire import decode, digest, unpack
from cipherdag.protocol.asked import Context, Recall
from cipherdag.protocol.messages import Ask, content_digest, open_envelope, read_envelope
from cipherdag.protocol.plan import Member, Plan
from cipherdag.protocol.secure_tests import batch_of
from cipherdag.protocol.set_up_messages import Chance, Offer, Seals, beacon_of
from cipherdag.questions.question import Question

SetUpBody = Offer | Seals | Chance
PURPOSES: Final = {
    Offer: ("offer", b"offers"),
    Seals: ("seals", b"sealed"),
    Chance: ("chance", b"chances"),
}
"""For each kind of message its topic, and the purpose of the digest of all sites' messages."""


def read_relayed(
    envelopes: tuple[bytes, ...],
    kind: type[SetUpBody],
    cohort: tuple[Member, ...],
    session: bytes,
    before: bytes,
) -> tuple[Sequence[SetUpBody], bytes]:
    """Opens the messages of all sites, in the order of the cohort, and digests them.

    The new digest goes on from the one ``before``. MalformedMessageError where a message has no
    form, SignatureError where it is not signed by its site for this session.
    """
    topic, purpose = PURPOSES[kind]
    bodies = [
        open_envelope(
            read_envelope(envelope, topic),
            identity=member.identity,
            session=session,
            sender=member.name,
            topic=topic,
        )
        for envelope, member in zip(envelopes, cohort, strict=True)
    ]
    return [decode(body, kind) for body in bodies], digest(purpose, before, *envelopes)


def read_sum(
    previous: bytes, declared: Declaration, aggregation: SiteAggregation
) -> tuple[bytes, FloatVector]:
    """Checks and reads the sum that was opened; as `unpack` and `SiteAggregation.accept` raise."""
    opened = unpack(previous, aggregation.sum_bytes(declared))
    return opened, aggregation.accept(opened, declared)


Relayed = Callable[
    [tuple[bytes, ...], type[SetUpBody], tuple["Member", ...], bytes, bytes],
    tuple[Sequence[SetUpBody], bytes],
]
DeriveBatch = Callable[[Context, Ask, Recall, bytes], Batch]
ReadSum = Callable[[bytes, "Declaration", "SiteAggregation"], tuple[bytes, "FloatVector"]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The functions by which a site reads messages and sums, and derives all that follows."""

    relayed: Relayed = read_relayed
    sum: ReadSum = read_sum
    graph: Callable[[bytes, int, int], KeyGraph] = KeyGraph.drawn
    roles: Callable[[bytes, range], Roles] = Roles.draw
    digest: Callable[[bytes, bytes, bytes], bytes] = digest
    beacon: Callable[[Plan, Sequence[bytes], Sequence[bytes]], bytes] = beacon_of
    content: Callable[[Question], bytes] = content_digest
    batch: DeriveBatch = batch_of
    verdicts: ReadVerdicts = read_verdicts


ALONE: Final = Reading()  # the functions of a site that reads and derives everything itself
