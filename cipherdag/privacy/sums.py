"""Secure sums, the one primitive: answers in, protected shares out, and only their sum comes back.

Every protection has the same verbs. A site holds a `SiteAggregation` (it owns the keys) and the
coordinator a `CoordinatorAggregation` (it owns none):

    setup      the site's object is built from the keys agreed with its cohort
    share      site          answer        -> bytes that may leave
    combine    coordinator   all shares    -> bytes that stand for the sum
    open       coordinator   combined      -> Aggregate; encrypted bytes a site decrypts first

Between share and open the sites release the seeds of the masks that do not cancel by themselves:
`unmask`, and `recover` for a site that left in between. A sum covers all sites asked, or none.

What differs between protections is whether words are masked (`roundmasks`), and what carries them:
as they are (`WordCarrier`), or encrypted (`bfvcontext`). The tags of the sites' `homomorphic_mac`
travel in the words.

Leaks:
    The coordinator learns the aggregate and nothing else; see each protection for its assumptions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from cipherdag.arrays import FloatVector, WordVector
from cipherdag.errors import AggregateRangeError, OpeningRefusedError, ShareError
from cipherdag.privacy.aggregation import Aggregate, Declaration
from cipherdag.privacy.fixedpoint import (
    decode,
    encode,
    plane_lengths,
    words_from_bytes,
    words_to_bytes,
)
from cipherdag.privacy.homomorphic_mac import MacKey
from cipherdag.privacy.residues import WORD_MODULI, Moduli, add
from cipherdag.privacy.roundmasks import RoundMasks, rebuild_seed, require_all, strip_masks
from cipherdag.privacy.secrecy import Secret
from cipherdag.privacy.wire import transcript


class Carrier(Protocol):
    """Carries words from a site to the coordinator, which may or may not read them."""

    @property
    def moduli(self) -> Moduli:
        """Modulus of each plane of words."""

    @property
    def opened_by_site(self) -> bool:
        """Whether only a site can read what the coordinator combined."""


class SiteCarrier(Carrier, Protocol):
    """A site's end: it writes words as bytes that travel, and reads a sum of such bytes."""

    def write(self, words: WordVector, lengths: Sequence[int]) -> bytes:
        """Words of planes of these lengths, as bytes that travel."""

    def read(self, content: bytes, lengths: Sequence[int]) -> WordVector:
        """Undo `write`, for a sum of shares too; raises ShareError."""


class CoordinatorCarrier(Carrier, Protocol):
    """The coordinator's end, which holds no key."""

    def check(self, share: bytes, lengths: Sequence[int]) -> None:
        """Raise ShareError for a share that is cut short or of foreign parameters."""

    def add(self, shares: Mapping[int, bytes], lengths: Sequence[int]) -> bytes:
        """The sum of shares given by position; raises ShareError naming the one at fault."""


class WordCarrier:
    """Both ends of a carrier without encryption: 8 bytes a word, which the coordinator reads.

    Leaks:
        The words, to whoever carries them; masked ones are uniform.
    """

    opened_by_site = False
    moduli: Moduli = WORD_MODULI

    def write(self, words: WordVector, lengths: Sequence[int]) -> bytes:
        """Words as 8 little-endian bytes each."""
        del lengths
        return words_to_bytes(words)

    def read(self, content: bytes, lengths: Sequence[int]) -> WordVector:
        """Undo `write`; raises ShareError for another length."""
        return words_from_bytes(content, sum(lengths))

    def check(self, share: bytes, lengths: Sequence[int]) -> None:
        """Raise ShareError for a share of wrong length, or with a word that is not reduced."""
        self._planes(share, lengths)

    def add(self, shares: Mapping[int, bytes], lengths: Sequence[int]) -> bytes:
        """The sum, plane by plane; raises ShareError as `check` does, naming the share."""
        total = np.zeros(sum(lengths), dtype=np.uint64)
        parts = np.split(total, np.cumsum(lengths)[:-1])
        for position, share in shares.items():
            try:
                planes = self._planes(share, lengths)
            except ShareError as error:
                raise ShareError(f"share {position} is {error.message}") from None
            for part, plane, modulus in zip(parts, planes, self.moduli, strict=True):
                add(part, plane, modulus)
        return words_to_bytes(total)

    def _planes(self, share: bytes, lengths: Sequence[int]) -> list[WordVector]:
        planes = np.split(words_from_bytes(share, sum(lengths)), np.cumsum(lengths)[:-1])
        for plane, modulus in zip(planes, self.moduli, strict=True):
            if (plane > np.uint64(modulus - 1)).any():
                raise ShareError("altered: a word is not reduced")
        return planes


class SiteAggregation(Secret):
    """A site's side of one protection, holding the keys of one session.

    Without ``masks`` answers leave in the clear. With ``sum_key`` the sites notice a forged sum.
    """

    __slots__ = ("_carrier", "_masks", "_opened", "_sum_key")

    def __init__(self, masks: RoundMasks | None, sum_key: MacKey, carrier: SiteCarrier) -> None:
        self._masks = masks
        self._sum_key = sum_key
        self._carrier = carrier
        self._opened: tuple[bytes, bytes] | None = None

    def share(self, answer: FloatVector, declaration: Declaration) -> bytes:
        """Protect one answer of shape (declaration.length,).

        BoundExceededError where a value is not finite or lies outside its bound; else as
        `RoundMasks.check`.

        Leaks:
            Nothing without the seeds that `unmask` releases; the answer, where nothing is masked.
        """
        moduli = self._carrier.moduli
        if self._masks is not None:
            self._masks.check(declaration)
        words = encode(answer, declaration, moduli)
        lengths = plane_lengths(declaration, moduli)
        self._sum_key.tag(words, lengths, moduli, declaration.digest)
        if self._masks is not None:
            self._masks.mask(words, lengths, moduli, declaration)
        self._opened = None
        return self._carrier.write(words, lengths)

    def escrow(self, declaration: Declaration) -> tuple[bytes, ...]:
        """A sealed piece of this round's self mask for every other site asked, in their order.

        None at all where ``declaration.threshold`` is 0, or nothing is masked.
        """
        return () if self._masks is None else self._masks.escrow(declaration)

    def unmask(self, declaration: Declaration) -> bytes:
        """The seed of this round's self mask, which the sum needs of every site."""
        return b"" if self._masks is None else self._masks.unmask(declaration)

    def recover(self, vanished: int, piece: bytes, declaration: Declaration) -> bytes:
        """This site's piece of the self mask of a site that left before it could unmask."""
        return b"" if self._masks is None else self._masks.recover(vanished, piece, declaration)

    def open(self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The sum, decrypted and stripped of its masks, 8 bytes a residue.

        ``combined`` is what `CoordinatorAggregation.combine` yields, ``seeds`` what `unmask` does.
        Asked again for the same ones it returns the same bytes.

        Raises:
            OpeningRefusedError: The coordinator opens the sum itself, this site released no seed
                for the question, or another sum was opened for it; or this one is not over the
                sites asked.
            ShareError: The ciphertext or a seed is malformed.

        Leaks:
            The aggregate, to the coordinator and to this site.
        """
        if self._masks is None or not self._carrier.opened_by_site:
            raise OpeningRefusedError("the coordinator reads this sum itself; no site opens it")
        self._masks.require_released(declaration)
        if set(seeds) != set(declaration.sites):
            raise OpeningRefusedError("the sum is not over the sites that were asked")
        request = transcript(combined, *(seeds[site] for site in declaration.sites))
        asked = hashlib.sha256(request).digest()
        if self._opened is None:
            self._opened = asked, self._decrypted(combined, seeds, declaration)
        seen, content = self._opened
        if seen != asked:
            raise OpeningRefusedError("another sum was opened for this question before")
        if not content:
            raise OpeningRefusedError("the ciphertext is not the sum of the sites' shares")
        return content

    def sum_bytes(self, declaration: Declaration) -> int:
        """Length of `Aggregate.content`."""
        return 8 * sum(plane_lengths(declaration, self._carrier.moduli))

    def accept(self, content: bytes, declaration: Declaration) -> FloatVector:
        """The sums that the coordinator says were opened, of shape (declaration.length,).

        ForgedSumError where they are not the sums of what the sites asked shared, ShareError where
        words are missing, AggregateRangeError where a site declared one range and answered beyond.
        """
        moduli = self._carrier.moduli
        lengths = plane_lengths(declaration, moduli)
        words = words_from_bytes(content, sum(lengths))
        n_sites = len(declaration.sites)
        self._sum_key.check(words, lengths, moduli, declaration.digest, n_sites=n_sites)
        return decode(content, declaration, moduli).values

    def accepts_as(self, other: SiteAggregation) -> bool:
        """Whether both accept the same sums, since they hold the same key."""
        same_words = self._carrier.moduli == other._carrier.moduli
        return self._sum_key.same_as(other._sum_key) and same_words

    def _decrypted(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> bytes:
        """The stripped words, or nothing where they are not the sum of the sites' shares."""
        moduli = self._carrier.moduli
        lengths = plane_lengths(declaration, moduli)
        words = self._carrier.read(combined, lengths)
        strip_masks(words, lengths, moduli, seeds=seeds, declaration=declaration)
        content = words_to_bytes(words)
        try:
            decode(content, declaration, moduli)
        except AggregateRangeError:
            return b""
        return content


class CoordinatorAggregation:
    """The coordinator's side of one protection; it holds no key.

    ``opened_by_site``: a site first opens what `combine` yields; ``masked``: sites mask the words.
    """

    def __init__(self, carrier: CoordinatorCarrier, *, masked: bool) -> None:
        self._carrier = carrier
        self._masked = masked
        self.opened_by_site = carrier.opened_by_site

    def check(self, share: bytes, declaration: Declaration) -> None:
        """Raise ShareError for a share that is cut short or of foreign parameters."""
        carrier = self._carrier
        carrier.check(share, plane_lengths(declaration, carrier.moduli))

    def combine(self, shares: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """Add the shares of all sites asked; ShareError if one is missing, or as `check`."""
        require_all(shares, declaration)
        carrier = self._carrier
        return carrier.add(shares, plane_lengths(declaration, carrier.moduli))

    def rebuild(self, pieces: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The seed of a site that left, from others' pieces; empty where nothing is masked."""
        return rebuild_seed(pieces, declaration) if self._masked else b""

    def open(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> Aggregate:
        """The aggregate over the sites asked, of shape (declaration.length,).

        ``combined`` comes from `combine`, or from `SiteAggregation.open` of a site; ``seeds`` from
        `SiteAggregation.unmask` of every site.

        Raises:
            ShareError: The sum has another length than declared, or a seed is malformed, missing,
                of a site that was not asked, or came though nothing is masked.
            AggregateRangeError: A share or a seed was altered or is for another question.

        Leaks:
            The sum over the sites asked, to the coordinator.
        """
        moduli = self._carrier.moduli
        require_all(seeds, declaration)
        if not self._masked and any(seeds.values()):
            raise ShareError("seeds came, but nothing is masked")
        if self._masked and not self.opened_by_site:
            lengths = plane_lengths(declaration, moduli)
            words = words_from_bytes(combined, sum(lengths)).copy()
            strip_masks(words, lengths, moduli, seeds=seeds, declaration=declaration)
            combined = words_to_bytes(words)
        return decode(combined, declaration, moduli)
