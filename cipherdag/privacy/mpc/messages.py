"""The messages between the parties of a batch of secure tests, and how they are relayed.

Parts, shares and seeds are sealed for one party each. The seal is bound to the batch, sender,
recipient and kind; from D on, also to what both holders exchanged before. E are the masked factors
of products, D the masked values of the forms (`holding`). Roles are explained in `batch`.

    exchange   to                  carries                     answers
    share      every site          (its question)              Contributed
    prepare    dealer, twin        Collected                   Keys, Checks
               both holders        Collected                   Passed: share of E
    square     both holders        Square                      Passed: share of D
    compare    both holders        Passed: other's share of D  Passed: shares of labels
    open       both holders        Passed: other's labels      Signed
    (next)     every site          Verdicts

The coordinator hands them on (`Relay`). It reads none of what others sealed, and checks shapes and
lengths alone, so that whoever sent something else is named at once.

Leaks:
    Whoever carries them sees lengths, commitments to random seeds, hashes of labels, keys that say
    nothing without a holder's seed, and the bits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cipherdag.arrays import BoolVector
from cipherdag.errors import (
    CipherdagError,
    ForgedSumError,
    MalformedMessageError,
    ShareError,
    SignatureError,
)
from cipherdag.privacy.fixedpoint import DIGEST_BYTES
from cipherdag.privacy.keys.identity import SIGNATURE_BYTES, SigningIdentity, verify
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, SEAL_BYTES
from cipherdag.privacy.mpc.batch import COORDINATOR, Batch
from cipherdag.privacy.mpc.holding import label_bytes
from cipherdag.privacy.wire import Body, BodyType, decode, encode

SEALED_SEED: Final = KEY_BYTES + SEAL_BYTES
_FRAME = 1024  # room for field names and short fields of a message
_FRAME_OF_A_PART = 8  # room for the lengths of one site's part and commitment


class Contributed(Body, frozen=True):
    """A site's parts; a part for itself, or for a role that nobody has, is empty."""

    first: bytes  # sealed seed for the first holder
    dealt: bytes  # sealed seed for the dealer
    again: bytes  # the same seed, sealed for the twin
    rest: bytes  # sealed words for the second holder
    commitment: bytes  # to the seed in ``dealt``
    seed: bytes = b""  # from the dealer alone: the seed that it deals from, sealed for the twin


class Collected(Body, frozen=True):
    """The parts of all other sites for one role, in the order of the batch's sites.

    Dealer and twin have commitments to the dealt seeds too, the twin the dealer's sealed seed.
    """

    parts: tuple[bytes, ...]
    commitments: tuple[bytes, ...] = ()
    seed: bytes = b""


class Keys(Body, frozen=True):
    """The dealer's deal: its part in the clear, and a sealed seed for each holder."""

    common: bytes
    seeds: tuple[bytes, bytes]


class Checks(Body, frozen=True):
    """The twin's digests of what each holder was dealt, sealed for that holder."""

    digests: tuple[bytes, bytes]


class Square(Body, frozen=True):
    """The other holder's share of E (``masked``), the deal, and the twin's ``check``, if any."""

    masked: bytes
    common: bytes
    seed: bytes
    check: bytes = b""


class Passed(Body, frozen=True):
    """One holder's words, sealed for the other."""

    content: bytes


class Signed(Body, frozen=True):
    """The packed bits, the digest of what was dealt, and one holder's signature over both."""

    bits: bytes
    dealt: bytes
    signature: bytes


class Verdicts(Body, frozen=True):
    """The bits of `Signed`, with the signatures of the first and the second holder."""

    bits: bytes
    dealt: bytes
    signatures: tuple[bytes, bytes]


def most_bytes(batch: Batch, kind: type[Body]) -> int:
    """The most bytes of a message of this kind; a longer one is refused unread."""
    vector, sites = batch.vector.n_bytes + SEAL_BYTES, len(batch.sites)
    bits = -(-batch.predicates.n_tests // 8)
    labels = 8 * (batch.predicates.n_tests + 1)
    most = {
        Contributed: vector,
        Collected: sites * (vector + DIGEST_BYTES + _FRAME_OF_A_PART),
        Keys: batch.dealt_bytes,
        Checks: 0,
        Square: batch.factors.n_bytes + batch.dealt_bytes,
        Passed: max(batch.factors.n_bytes, batch.forms.n_bytes, labels),
        Signed: bits,
        Verdicts: bits,
    }
    return most[kind] + _FRAME


_DOMAIN = b"cipherdag secure verdicts"


def sign_bits(batch: Batch, bits: BoolVector, dealt: bytes, identity: SigningIdentity) -> Signed:
    """A holder's signature over the bits, and over SHA-256 of what was dealt.

    Leaks:
        The bits. No function of a masked sum is signed, since the dealer could search for the sum.
    """
    packed = np.packbits(bits).tobytes()
    return Signed(packed, dealt, identity.sign(_DOMAIN, batch.digest, packed, dealt))


def check_signed(batch: Batch, said: Signed | Verdicts) -> None:
    """Raise MalformedMessageError for a wrong number of bits, or a digest of wrong length."""
    count = batch.predicates.n_tests
    if len(said.bits) != -(-count // 8) or len(said.dealt) != DIGEST_BYTES:
        raise MalformedMessageError("the bits of secure tests are cut short or too long")
    if np.unpackbits(np.frombuffer(said.bits, dtype=np.uint8))[count:].any():
        raise MalformedMessageError("there are bits beyond the last secure test")


def check_signatures(
    batch: bytes, bits: bytes, dealt: bytes, signed: Iterable[tuple[bytes, bytes]]
) -> None:
    """Raise ForgedSumError unless each (key, signature) fits a batch's digest, bits and deal."""
    for public, signature in signed:
        try:
            if len(signature) != SIGNATURE_BYTES:
                raise SignatureError("the signature is cut short or too long")
            verify(public, signature, _DOMAIN, batch, bits, dealt)
        except CipherdagError as error:
            raise ForgedSumError(
                f"the bits are not what both computing parties found: {error.message}"
            ) from None


def read_verdicts(content: bytes, batch: Batch, holders: tuple[bytes, bytes]) -> BoolVector:
    """The bits, shape (tests,), that both holders signed for this very batch.

    ``holders`` are the pinned public keys of the first and the second holder. Raises
    MalformedMessageError where the content is no valid `Verdicts`, and ForgedSumError where a
    holder did not sign these bits, for this batch, after this deal.
    """
    said = decode(content, Verdicts, most_bytes(batch, Verdicts))
    check_signed(batch, said)
    signed = zip(holders, said.signatures, strict=True)
    check_signatures(batch.digest, said.bits, said.dealt, signed)
    packed = np.frombuffer(said.bits, dtype=np.uint8)
    return np.unpackbits(packed, count=batch.predicates.n_tests).astype(bool)


ReadVerdicts = Callable[[bytes, Batch, tuple[bytes, bytes]], BoolVector]


@dataclass(frozen=True, slots=True)
class Relay:
    """Hands on the messages of one batch; names of sites, by position, are for errors.

    Every verb raises ShareError where an answer is missing, or is not one of this batch.
    """

    batch: Batch
    names: Sequence[str]

    def check(self, site: int, share: bytes) -> None:
        """Raise ShareError unless a site's `Contributed` has the lengths that this batch needs."""
        self._check_lengths(site, self._read(site, share, Contributed))

    def prepare(self, shares: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Collected` for every role, by position, from `Contributed` of every site.

        A coordinator that deals is asked under `COORDINATOR`.

        Leaks:
            Commitments to seeds that were drawn at random, to dealer and twin.
        """
        self._require(shares, self.batch.sites)
        said = {site: self._read(site, shares[site], Contributed) for site in self.batch.sites}
        for site, parts in said.items():
            self._check_lengths(site, parts)
        roles = self.batch.roles
        first, second = roles.holders

        def others(party: int, part: str) -> tuple[bytes, ...]:
            return tuple(getattr(parts, part) for site, parts in said.items() if site != party)

        asked: dict[int, Body] = {
            first: Collected(others(first, "first")),
            second: Collected(others(second, "rest")),
            roles.dealer: Collected(
                others(roles.dealer, "dealt"), others(roles.dealer, "commitment")
            ),
        }
        if (twin := roles.twin) is not None:
            again, commitments = others(twin, "again"), others(twin, "commitment")
            asked[twin] = Collected(again, commitments, said[roles.dealer].seed)
        return {party: encode(body) for party, body in asked.items()}

    def square(self, prepared: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Square` for both holders, from all roles' answers to `prepare`."""
        roles = self.batch.roles
        self._require(prepared, {roles.dealer, *roles.sites})
        keys = self._read(roles.dealer, prepared[roles.dealer], Keys)
        expected = (self.batch.dealt_bytes, SEALED_SEED, SEALED_SEED)
        self._fits(roles.dealer, (keys.common, *keys.seeds), expected)
        checks: tuple[bytes, bytes] = (b"", b"")
        if roles.twin is not None:
            checks = self._read(roles.twin, prepared[roles.twin], Checks).digests
            self._fits(roles.twin, checks, (SEALED_SEED, SEALED_SEED))
        passed = self._passed(prepared, self.batch.factors.n_bytes)
        return {
            holder: encode(Square(passed[1 - which], keys.common, keys.seeds[which], checks[which]))
            for which, holder in enumerate(roles.holders)
        }

    def compare(self, squared: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Passed` for both holders: each other's share of masked forms."""
        return self._crossed(squared, self.batch.forms.n_bytes)

    def open(self, compared: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Passed` for both holders: each other's shares of the labels."""
        return self._crossed(compared, label_bytes(self.batch))

    def combine(self, opened: Mapping[int, bytes]) -> bytes:
        """`Verdicts`; ForgedSumError where the holders disagree on the bits: one of them lies."""
        holders = self.batch.roles.holders
        self._require(opened, holders)
        first, second = (self._read(site, opened[site], Signed) for site in holders)
        for holder, said in zip(holders, (first, second), strict=True):
            try:
                check_signed(self.batch, said)
            except CipherdagError as error:
                raise ShareError(error.message, site=self._name(holder)) from None
        if (first.bits, first.dealt) != (second.bits, second.dealt):
            both = " and ".join(f"'{self._name(site)}'" for site in holders)
            raise ForgedSumError(f"the computing parties {both} say other bits")
        return encode(Verdicts(first.bits, first.dealt, (first.signature, second.signature)))

    def _crossed(self, replies: Mapping[int, bytes], length: int) -> dict[int, bytes]:
        holders = self.batch.roles.holders
        self._require(replies, holders)
        first, second = self._passed(replies, length)
        return {holders[0]: encode(Passed(second)), holders[1]: encode(Passed(first))}

    def _passed(self, replies: Mapping[int, bytes], length: int) -> tuple[bytes, bytes]:
        """The contents that the holders sealed for each other, the first holder's first."""
        contents = []
        for holder in self.batch.roles.holders:
            content = self._read(holder, replies[holder], Passed).content
            self._fits(holder, (content,), (length + SEAL_BYTES,))
            contents.append(content)
        return contents[0], contents[1]

    def _check_lengths(self, site: int, said: Contributed) -> None:
        roles, sealed = self.batch.roles, SEALED_SEED
        first, second = roles.holders
        twin, deals = roles.twin, site == roles.dealer
        expected = (
            0 if site == first else sealed,
            0 if deals else sealed,
            0 if twin is None or site == twin else sealed,
            0 if site == second else self.batch.vector.n_bytes + SEAL_BYTES,
            DIGEST_BYTES,
            sealed if deals and twin is not None else 0,
        )
        parts = (said.first, said.dealt, said.again, said.rest, said.commitment, said.seed)
        self._fits(site, parts, expected)

    def _fits(self, party: int, parts: Iterable[bytes], expected: Iterable[int]) -> None:
        if tuple(map(len, parts)) != tuple(expected):
            raise ShareError(
                "its part of the secure tests is cut short or too long", site=self._name(party)
            )

    def _require(self, replies: Mapping[int, bytes], asked: Iterable[int]) -> None:
        if set(replies) != set(asked):
            raise ShareError("not just the parties that were asked answered secure tests")

    def _read(self, party: int, reply: bytes, kind: type[BodyType]) -> BodyType:
        try:
            return decode(reply, kind, most_bytes(self.batch, kind))
        except CipherdagError as error:
            raise ShareError(error.message, site=self._name(party)) from None

    def _name(self, party: int) -> str:
        return "coordinator" if party == COORDINATOR else self.names[party]
