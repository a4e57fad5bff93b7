"""A site's side of a set-up with a sparse key graph, which is drawn at random.

Every site signs an offer of fresh keys and a commitment; once it has seen all of them it reveals
the number that it committed to; all numbers together give the graph, and each site agrees on a key
with its neighbours alone; every site then proves that its schema is the same. Nobody knows the
graph before all keys are fixed, and every set-up of the same sites uses the same numbers. The first
site, and every one with a role in secure tests, also agrees on a key with every other one.

Leaks:
    The coordinator sees public keys, ciphertexts, the lot, equality of schemas and the number of
    variables. The sites learn the first site's schema, which is the study's.
"""

from cipherdag.errors import KeyAgreementError
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.keys.pairkeys import MLKEM_CIPHERTEXT_BYTES, PairKey
from cipherdag.privacy.mpc.batch import Roles
from cipherdag.privacy.wire import same_digest
from cipherdag.protocol.set_up import earlier, later
from cipherdag.protocol.set_up_messages import Chance, Chances, Commitments, Linked, Links, Ready
from cipherdag.protocol.states import State
from cipherdag.sites.session.handshake import Keyring, SetUp

WORD_BYTES = 16
_PURPOSE = b"link"


class SparseSetUp(SetUp):
    """The set-up of a sparse graph."""

    state = State.COMMITTED
    _graph: KeyGraph
    _beacon: bytes

    def chance(self, commitments: Commitments) -> Chance:
        """The number that this site committed to, once all have; raises as `_opened_offers`."""
        self._offers, self._transcript = self._opened_offers(commitments.envelopes)
        self.state = State.REVEALED
        return Chance(self._transcript, self._chance, self._last_record())

    def links(self, chances: Chances) -> Links:
        """Keys with every later neighbour, and from the first site what all sites share.

        KeyAgreementError where the sites were not shown the same offers, or a site tells another
        number than it committed to; SignatureError where its pinned identity did not sign it.
        """
        graph = self._drawn(chances)
        links = tuple(
            self._initiated(other, self._offers[other]) + _word(self._pair_keys[other])
            for other in later(graph, self._roles(), self.index)
        )
        if self.index:
            return Links(links=links)
        sealed, content = self._sealed_secrets()
        return Links(links=links, secrets=sealed, content=content)

    def finish(self, linked: Linked) -> tuple[Keyring, Ready]:
        """As `Handshake.finish`, with every earlier neighbour."""
        senders = earlier(self._graph, self._roles(), self.index)
        if len(senders) != len(linked.links):
            raise KeyAgreementError("the links relayed are not one for every earlier neighbour")
        for sender, link in zip(senders, linked.links, strict=True):
            ciphertext, word = link[:MLKEM_CIPHERTEXT_BYTES], link[MLKEM_CIPHERTEXT_BYTES:]
            if not same_digest(_word(self._responded(sender, ciphertext)), word):
                name = self._names[sender]
                raise KeyAgreementError(f"the link of '{name}' was altered on its way")
        secrets, content = self._shared(linked.secrets, linked.content)
        return self._agreed(secrets, content, self._transcript, self._beacon, self._graph)

    def _roles(self) -> Roles:
        return self._read.roles(self._beacon, range(len(self._names)))

    def _drawn(self, chances: Chances) -> KeyGraph:
        """The graph that follows from all sites' numbers; from now on keys are bound to these."""
        opened, transcript = self._opened(chances.envelopes, Chance, self._transcript)
        if any(each.transcript != self._transcript for each in opened):
            raise KeyAgreementError("the sites were not shown the same offers")
        self._remember([each.last_record for each in opened])
        bounds = self.plan.key_bounds
        if bounds is None:
            raise KeyAgreementError("the plan says nothing of a lot")
        self._beacon = self._beacon_of([each.chance for each in opened])
        self._graph = self._read.graph(self._beacon, len(self._names), bounds.degree)
        self._transcript = transcript
        self.state = State.LINKED
        return self._graph


def _word(key: PairKey) -> bytes:
    """A word under the pair key, which shows that nobody altered the link that leads to it."""
    return key.derive(_PURPOSE)[:WORD_BYTES]
