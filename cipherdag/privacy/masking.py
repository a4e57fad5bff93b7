"""Secure sums by masks in Z_2**64: the default protection.

Every pair of sites shares a stream of uniform words for each question; the site that comes first
in the cohort adds it to its answer, the other subtracts it, and every site adds a stream of its
own (Bonawitz et al., CCS 2017, section 4). In the sum over all sites asked the pairwise masks
cancel; what is left is stripped with the seeds that the sites release once each knows that all
others were asked the same. A site may leave after its share came; see `roundmasks`.

Leaks:
    The coordinator learns the sum over the sites asked. It and any sites colluding with it learn
    the sum of the other sites' answers, which the aggregate and the colluders' own answers imply
    anyway; that needs fewer colluders than ``Declaration.threshold``, where seeds are escrowed at
    all, and sites that open a question for one cohort only, which the protocol checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np

from cipherdag.errors import OpeningRefusedError, ShareError
from cipherdag.privacy.fixedpoint import (
    decode,
    encode,
    plane_lengths,
    word_count,
    words_from_bytes,
    words_to_bytes,
)
from cipherdag.privacy.residues import WORD_MODULI, add
from cipherdag.privacy.roundmasks import (
    RoundMasks,
    rebuild_seed,
    require_all,
    strip_masks,
)
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.privacy.aggregation import Aggregate, Declaration, FloatVector, WordVector
    from cipherdag.privacy.pairkeys import PairKey


class MaskingSite(Secret):
    """A site's side of masking.

    Args:
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every other position.

    Raises:
        CohortError: There is no other site, or not one key for each.
    """

    __slots__ = ("_masks",)

    name: ClassVar[str] = "masking"

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey]) -> None:
        self._masks = RoundMasks(index, pair_keys)

    @property
    def secret_size(self) -> int:
        """Of all pair keys and the seed of the current round together."""
        return self._masks.secret_size

    @property
    def modulus(self) -> int:
        """2**64."""
        return WORD_MODULI[0]

    def share(self, answer: FloatVector, declaration: Declaration) -> bytes:
        """The masked answer, 8 bytes a word; see `fixedpoint.word_count`.

        Raises:
            BoundExceededError: A value is not finite or lies outside its bound.
            CohortError: The declaration leaves this site out, names one without a pair key, or
                contradicts itself.
            ReplayError: This site already shared something for this digest.

        Leaks:
            Nothing without the seeds that `unmask` releases: the words are uniform.
        """
        self._masks.check(declaration)
        words = encode(answer, declaration, WORD_MODULI)
        lengths = plane_lengths(declaration, WORD_MODULI)
        self._masks.mask(words, lengths, WORD_MODULI, declaration)
        return words_to_bytes(words)

    def escrow(self, declaration: Declaration) -> tuple[bytes, ...]:
        """Sealed pieces of this round's self mask; see `RoundMasks.escrow`."""
        return self._masks.escrow(declaration)

    def unmask(self, declaration: Declaration) -> bytes:
        """The seed that the sum needs of this site; see `RoundMasks.unmask`."""
        return self._masks.unmask(declaration)

    def recover(self, vanished: int, piece: bytes, declaration: Declaration) -> bytes:
        """A piece of the self mask of a site that left; see `RoundMasks.recover`."""
        return self._masks.recover(vanished, piece, declaration)

    def open(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> NoReturn:
        """Always refused: the coordinator reads the sum itself."""
        del combined, seeds, declaration
        raise OpeningRefusedError("under masking there is nothing that a site opens")


class MaskingCoordinator:
    """The coordinator's side of masking; it holds no key."""

    name: ClassVar[str] = "masking"

    @property
    def opened_by_site(self) -> bool:
        """False: the sites' seeds are all that is needed."""
        return False

    def check(self, share: bytes, declaration: Declaration) -> None:
        """Raise ShareError for a share of wrong length, or with a word that is not reduced."""
        read_share(share, declaration)

    def combine(self, shares: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The masked sum of the shares of all sites asked, given by position.

        Raises:
            ShareError: A share is missing, of a site that was not asked, of another length than
                declared, or not reduced.

        Leaks:
            Nothing without all seeds.
        """
        return words_to_bytes(add_shares(shares, declaration))

    def rebuild(self, pieces: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The seed of a site that left; see `roundmasks.rebuild_seed`."""
        return rebuild_seed(pieces, declaration)

    def open(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> Aggregate:
        """The aggregate, of shape (declaration.length,).

        Args:
            combined: What `combine` yielded.
            seeds: What each site's `MaskingSite.unmask` returned, by position.
            declaration: What the shares were for.

        Raises:
            ShareError: The sum has another length than declared, or a seed is malformed, missing
                or of a site that was not asked.
            AggregateRangeError: A share or a seed was altered or is for another question.

        Leaks:
            The sum over the sites asked, to the coordinator.
        """
        words = words_from_bytes(combined, word_count(declaration, WORD_MODULI)).copy()
        lengths = plane_lengths(declaration, WORD_MODULI)
        strip_masks(words, lengths, WORD_MODULI, seeds=seeds, declaration=declaration)
        return decode(words_to_bytes(words), declaration, WORD_MODULI)


def read_share(share: bytes, declaration: Declaration) -> list[WordVector]:
    """The planes of a share of words; raises ShareError unless all of them are reduced."""
    lengths = plane_lengths(declaration, WORD_MODULI)
    planes = np.split(words_from_bytes(share, sum(lengths)), np.cumsum(lengths)[:-1])
    for plane, modulus in zip(planes, WORD_MODULI, strict=True):
        if (plane > np.uint64(modulus - 1)).any():
            raise ShareError("altered: a word is not reduced")
    return planes


def add_shares(shares: Mapping[int, bytes], declaration: Declaration) -> WordVector:
    """The sum of shares of words, plane by plane; raises ShareError as `combine` does."""
    lengths = plane_lengths(declaration, WORD_MODULI)
    total = np.zeros(sum(lengths), dtype=np.uint64)
    parts = np.split(total, np.cumsum(lengths)[:-1])
    for position in require_all(shares, declaration):
        try:
            planes = read_share(shares[position], declaration)
        except ShareError as error:
            raise ShareError(f"share {position} is {error.message}") from None
        for part, plane, modulus in zip(parts, planes, WORD_MODULI, strict=True):
            add(part, plane, modulus)
    return total
