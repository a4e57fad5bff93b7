"""One party's part in one batch: byte messages in, byte messages out, every verb once and in turn.

Every site shares its vector; dealer and twin prepare keys from the parts dealt to them. Then the
two holders exchange shares of masked sums E (`prepare`), of masked forms D (`square`) and of labels
(`compare`), and `open` reads the bits from the labels; `holding` has the arithmetic.

A verb that is asked twice or out of turn (`TURNS`), or that failed, ends the part, so that nothing
is computed again from the same seeds: they are fresh for every batch, and live in memory alone.

Leaks:
    To each party that keeps to the protocol, the bits, and what its verbs say.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

from cipherdag.arrays import IntegerVector, WordVector
from cipherdag.errors import (
    CipherdagError,
    CohortError,
    ComparisonKeyError,
    KeyAgreementError,
    ReplayError,
    ShareError,
)
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, SealingKey, encode_position
from cipherdag.privacy.mpc.batch import COORDINATOR, Batch
from cipherdag.privacy.mpc.holding import Holding, label_bytes
from cipherdag.privacy.mpc.messages import (
    Checks,
    Collected,
    Contributed,
    Keys,
    Passed,
    Square,
    most_bytes,
    sign_bits,
)
from cipherdag.privacy.mpc.sharing import (
    commitment,
    commits_to,
    deal_batch,
    deal_digest,
    part_words,
    split_vector,
    sum_of_parts,
)
from cipherdag.privacy.mpc.words import RandomBytes
from cipherdag.privacy.secrecy import Secret
from cipherdag.privacy.wire import BodyType, decode, encode, same_digest, transcript

TURNS: Final[Mapping[str, tuple[str, ...]]] = {
    "site": ("share",),
    "dealer": ("share", "prepare"),
    "twin": ("share", "prepare"),
    "holder": ("share", "prepare", "square", "compare", "open"),
    "coordinator": ("prepare",),
}


class Seat(Secret):
    """A party's part in a batch; `Party.begin` makes it.

    ``keys`` seal for the other parties; a holder also signs, with its identity. A holder is
    ``masked`` once it answered with its share of E, and ``signed`` once it signed the bits.

    Every verb raises ReplayError where it was asked before or out of turn, MalformedMessageError
    for a request that is not valid, and ShareError where what another party sealed does not unseal
    here: it was altered, or bound to other shares than this party exchanged.
    """

    __slots__ = (
        "_dealt", "_exchanged", "_holding", "_identity", "_keys", "_names", "_position", "_random",
        "_seed", "_sent", "_stored", "_verbs_left", "batch", "masked", "signed",
    )  # fmt: skip

    def __init__(
        self,
        batch: Batch,
        position: int,
        keys: Mapping[int, SealingKey],
        names: Sequence[str],
        identity: SigningIdentity | None,
        random_bytes: RandomBytes,
    ) -> None:
        self.batch, self._position, self._keys = batch, position, keys
        self._names, self._identity, self._random = names, identity, random_bytes
        self._verbs_left = TURNS[batch.role_of(position)]
        self._stored: dict[str, bytes] = {}
        self._seed = random_bytes(KEY_BYTES) if position == batch.roles.dealer else b""
        self._sent = self._exchanged = b""
        self.masked = self.signed = False

    def end(self) -> None:
        """Let nothing more be asked of this part."""
        self._verbs_left = ()
        self._stored.clear()

    def share(self, values: IntegerVector) -> bytes:
        """`Contributed`: this site's vector, in three parts.

        Values are whole numbers, shape (words,), each within what this site's rows can say. Raises
        as `split_vector`, too.

        Leaks:
            The vector, to both holders together with the dealer or its twin, which have all three
            parts; nothing to any two of these parties.
        """
        with self._turn("share"):
            batch, roles = self.batch, self.batch.roles
            parts = split_vector(batch, values, self._random)
            committed = commitment(batch, self._position, parts.dealt)
            first, second = roles.holders
            hidden_seed = b""
            if self._seed and roles.twin is not None:
                hidden_seed = self._sealed(roles.twin, "seed", self._seed)
            return encode(
                Contributed(
                    first=self._given(first, "first part", parts.first),
                    dealt=self._given(roles.dealer, "dealt part", parts.dealt, committed),
                    again=self._given(roles.twin, "dealt part", parts.dealt, committed),
                    rest=self._given(second, "rest", parts.rest),
                    commitment=committed,
                    seed=hidden_seed,
                )
            )

    def prepare(self, request: bytes) -> bytes:
        """`Keys` of the dealer, `Checks` of its twin, `Passed` with a holder's share of E.

        ShareError, too, where a site gave dealer and twin different parts.

        Leaks:
            To dealer and twin the dealt parts, to a holder its parts; all of them are uniform.
        """
        with self._turn("prepare"):
            said = self._read(request, Collected)
            others = [site for site in self.batch.sites if site != self._position]
            if len(said.parts) != len(others):
                raise ShareError("the parts of secure tests are not those of all other sites")
            if self._position not in self.batch.roles.holders:
                return encode(self._deal(said, others))
            self._holding = self._collected(said, others)
            self.masked = True
            return self._pass("masked sums", self._holding.mask())

    def square(self, request: bytes) -> bytes:
        """`Passed` with its share of D, from `Square`; ComparisonKeyError for another deal."""
        with self._turn("square"):
            said = self._read(request, Square)
            other = self._passed_by_other("masked sums", said.masked, self.batch.factors.n_bytes)
            seed = self._dealt_seed(said)
            share = self._holding.square(other, seed, said.common)
            self._note_exchange(other, self._dealt)
            return self._pass("masked forms", share)

    def compare(self, request: bytes) -> bytes:
        """`Passed` with this holder's shares of the labels, from `Passed`."""
        with self._turn("compare"):
            sealed = self._read(request, Passed).content
            other = self._passed_by_other("masked forms", sealed, self.batch.forms.n_bytes)
            share = self._holding.compare(other)
            self._note_exchange(other)
            return self._pass("labels", share)

    def open(self, request: bytes) -> bytes:
        """`Signed` bits, from `Passed`.

        ForgedSumError where a label means nothing: dealer or holder deviated; AggregateRangeError
        where a sum is none that the sites can produce.
        """
        with self._turn("open"):
            sealed = self._read(request, Passed).content
            other = self._passed_by_other("labels", sealed, label_bytes(self.batch))
            roles, identity = self.batch.roles, self._identity
            if identity is None:
                raise CohortError("a computing party signs what it finds")
            try:
                bits = self._holding.open(other)
            except CipherdagError as error:
                named = [f"'{self._name(party)}'" for party in (roles.dealer, *roles.holders)]
                error.message += f" (dealt by {named[0]}, held by {named[1]} and {named[2]})"
                raise
            self.signed = True
            return encode(sign_bits(self.batch, bits, self._dealt, identity))

    def _deal(self, said: Collected, others: Sequence[int]) -> Keys | Checks:
        """The dealer's keys; of the twin, which deals again from the same seed, their digests."""
        batch, roles = self.batch, self.batch.roles
        seed = self._seed or self._unsealed(roles.dealer, "seed", said.seed, KEY_BYTES)
        if len(said.commitments) != len(others):
            raise ShareError("the commitments of secure tests are not those of all other sites")
        seeds = [self._stored["dealt part"]] if "dealt part" in self._stored else []
        for site, part, committed in zip(others, said.parts, said.commitments, strict=True):
            content = self._unsealed(site, "dealt part", part, KEY_BYTES, committed)
            if not commits_to(committed, batch, site, content):
                raise ShareError(
                    "its part for the dealer is not the one that it committed to",
                    site=self._name(site),
                )
            seeds.append(content)
        dealt = deal_batch(batch, seed, seeds)
        (first, one), (second, other) = zip(roles.holders, dealt.seeds, strict=True)
        if self._seed:
            kind, bound = "holder seed", dealt.digest
            sealed = self._sealed(first, kind, one, bound), self._sealed(second, kind, other, bound)
            return Keys(dealt.common, sealed)
        one, other = dealt.check(batch, 0), dealt.check(batch, 1)
        return Checks((self._sealed(first, "check", one), self._sealed(second, "check", other)))

    def _collected(self, said: Collected, others: Sequence[int]) -> Holding:
        batch = self.batch
        which = batch.roles.holders.index(self._position)

        def words() -> Iterator[WordVector]:
            kind, length = ("rest", batch.vector.n_bytes) if which else ("first part", KEY_BYTES)
            parts = zip(others, said.parts, strict=True)
            each = ((site, self._unsealed(site, kind, part, length)) for site, part in parts)
            for site, content in chain([(self._position, self._stored.pop(kind))], each):
                with self._blaming(site):
                    yield batch.vector.unpack(content) if which else part_words(batch, content)

        return Holding(batch, which, sum_of_parts(batch, words()))

    def _dealt_seed(self, said: Square) -> bytes:
        """The holder's seed, once the twin, where there is one, has dealt the same."""
        batch, roles = self.batch, self.batch.roles
        self._dealt = dealt = hashlib.sha256(said.common).digest()
        try:
            seed = self._unsealed(roles.dealer, "holder seed", said.seed, KEY_BYTES, dealt)
        except ShareError:
            raise ComparisonKeyError(
                "the keys of secure tests were altered on their way from the dealer, "
                f"'{self._name(roles.dealer)}'"
            ) from None
        if roles.twin is None:
            return seed
        check = self._unsealed(roles.twin, "check", said.check, len(dealt))
        which = roles.holders.index(self._position)
        if not same_digest(check, deal_digest(batch, which, seed, dealt)):
            raise ComparisonKeyError(
                f"the dealer of secure tests, '{self._name(roles.dealer)}', and the verifier, "
                f"'{self._name(roles.twin)}', dealt differently"
            )
        return seed

    def _passed_by_other(self, kind: str, sealed: bytes, length: int) -> bytes:
        """What the other holder sealed; ShareError unless both exchanged the same shares before."""
        return self._unsealed(self._other, kind, sealed, length, self._exchanged)

    def _pass(self, kind: str, share: bytes) -> bytes:
        """A share for the other holder, bound to all shares that both exchanged before."""
        self._sent = share
        return encode(Passed(self._sealed(self._other, kind, share, self._exchanged)))

    @property
    def _other(self) -> int:
        first, second = self.batch.roles.holders
        return second if self._position == first else first

    def _note_exchange(self, other: bytes, *more: bytes) -> None:
        """Extend the digest of what both holders exchanged, to which all that follows is bound."""
        shares = self._sent, other
        if self._position != self.batch.roles.holders[0]:
            shares = other, self._sent
        self._exchanged = hashlib.sha256(transcript(self._exchanged, *shares, *more)).digest()

    def _given(self, recipient: int | None, kind: str, part: bytes, bound: bytes = b"") -> bytes:
        """A part sealed for its recipient; empty where that is this party, or nobody."""
        if recipient is None:
            return b""
        if recipient == self._position:
            self._stored[kind] = part
            return b""
        return self._sealed(recipient, kind, part, bound)

    def _sealed(self, to: int, kind: str, content: bytes, bound: bytes = b"") -> bytes:
        return self._keys[to].seal(content, self._context(kind, self._position, to, bound))

    def _unsealed(
        self, sender: int, kind: str, sealed: bytes, length: int, bound: bytes = b""
    ) -> bytes:
        """Undo `_sealed`; raises ShareError with the sender's name."""
        try:
            content = self._keys[sender].unseal(
                sealed, self._context(kind, sender, self._position, bound)
            )
        except KeyAgreementError:
            content = None
        if content is None or len(content) != length:
            raise ShareError(
                f"its {kind} of secure tests was altered on its way, or is of another batch",
                site=self._name(sender),
            )
        return content

    def _context(self, kind: str, sender: int, to: int, bound: bytes) -> bytes:
        return transcript(
            self.batch.digest, kind.encode(), encode_position(sender), encode_position(to), bound
        )

    def _read(self, request: bytes, kind: type[BodyType]) -> BodyType:
        return decode(request, kind, most_bytes(self.batch, kind))

    def _name(self, party: int) -> str:
        return "coordinator" if party == COORDINATOR else self._names[party]

    @contextmanager
    def _blaming(self, site: int) -> Iterator[None]:
        """Put a site's name on an error that its content raises."""
        try:
            yield
        except CipherdagError as error:
            error.site = error.site or self._name(site)
            raise

    @contextmanager
    def _turn(self, verb: str) -> Iterator[None]:
        """Take a step; ReplayError unless it is the next one. A step that fails is the last one."""
        left, self._verbs_left = self._verbs_left, ()
        if left[:1] != (verb,):
            raise ReplayError("a party of secure tests was asked twice, or out of turn")
        yield
        self._verbs_left = left[1:]
