"""Secure sums by pairwise masks in Z_2**64: the default protection.

Every pair of sites shares a stream of uniform words for each question; the site that comes first
in the cohort adds it to its answer, the other subtracts it (the semi-honest round of Bonawitz et
al., CCS 2017, section 4.0.1). In the sum of the whole cohort all masks cancel, and no smaller sum
can be read by anyone. The cohort is fixed: if a site does not answer, the round is lost.

Leaks:
    The coordinator learns the aggregate. It and up to N - 2 colluding sites together learn the sum
    of the other sites' answers, which the aggregate and the colluders' own answers imply anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np

from cipherdag.errors import CohortError, OpeningRefusedError, ReplayError, ShareError
from cipherdag.privacy.fixedpoint import (
    decode,
    encode,
    plane_lengths,
    words_from_bytes,
    words_to_bytes,
)
from cipherdag.privacy.keystream import add_pair_masks, check_peers
from cipherdag.privacy.pairkeys import KEY_BYTES, PairKey
from cipherdag.privacy.residues import WORD_MODULI, add
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.privacy.aggregation import Aggregate, Declaration, FloatVector, WordVector


class MaskingSite(Secret):
    """A site's side of masking.

    Args:
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every other position.

    Raises:
        CohortError: There is no other site, or not one key for each.
    """

    __slots__ = ("_index", "_pair_keys", "_shared")

    name: ClassVar[str] = "masking"

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey]) -> None:
        check_peers(index, pair_keys)
        self._index = index
        self._pair_keys = dict(pair_keys)
        self._shared: set[bytes] = set()

    @property
    def secret_size(self) -> int:
        """Of all pair keys together."""
        return KEY_BYTES * len(self._pair_keys)

    @property
    def modulus(self) -> int:
        """2**64."""
        return WORD_MODULI[0]

    def share(self, answer: FloatVector, declaration: Declaration) -> bytes:
        """The masked answer, 8 bytes a word; see `fixedpoint.word_count`.

        Raises:
            BoundExceededError: A value is not finite or lies outside its bound.
            CohortError: The declaration is for a cohort of another size.
            ReplayError: This site already shared something for this digest.

        Leaks:
            Nothing without the shares of all other sites: the words are uniform.
        """
        if declaration.cohort_size != len(self._pair_keys) + 1:
            raise CohortError("the declaration is for a cohort of another size")
        if declaration.digest in self._shared:
            raise ReplayError("this question was answered before; a mask is never used twice")
        words = encode(answer, declaration, WORD_MODULI)
        self._shared.add(declaration.digest)
        add_pair_masks(
            words,
            plane_lengths(declaration, WORD_MODULI),
            WORD_MODULI,
            index=self._index,
            pair_keys=self._pair_keys,
            digest=declaration.digest,
        )
        return words_to_bytes(words)

    def open(self, combined: bytes, declaration: Declaration) -> NoReturn:  # noqa: ARG002
        """Always refused: the coordinator reads the sum itself."""
        raise OpeningRefusedError("under masking there is nothing that a site opens")


class MaskingCoordinator:
    """The coordinator's side of masking; it holds no key."""

    name: ClassVar[str] = "masking"

    @property
    def opened_by_site(self) -> bool:
        """False: in the sum of all shares the masks are gone."""
        return False

    def combine(self, shares: Sequence[bytes], declaration: Declaration) -> bytes:
        """The sum of the shares of the whole cohort, in any order.

        Raises:
            ShareError: A share is missing, too many, or of another length than declared.

        Leaks:
            The aggregate, to the coordinator.
        """
        return words_to_bytes(add_shares(shares, declaration))

    def open(self, combined: bytes, declaration: Declaration) -> Aggregate:
        """The aggregate, of shape (declaration.length,).

        Raises:
            ShareError: The sum has another length than declared.
            AggregateRangeError: A share was missing, altered or for another question.

        Leaks:
            Nothing beyond the sum.
        """
        return decode(combined, declaration, WORD_MODULI)


def add_shares(shares: Sequence[bytes], declaration: Declaration) -> WordVector:
    """The sum of shares of words, plane by plane; raises ShareError as `combine` does."""
    if len(shares) != declaration.cohort_size:
        raise ShareError(
            f"{len(shares)} shares came for a cohort of {declaration.cohort_size} sites"
        )
    ends = np.cumsum(plane_lengths(declaration, WORD_MODULI))
    total = np.zeros(ends[-1], dtype=np.uint64)
    for position, share in enumerate(shares):
        try:
            words = words_from_bytes(share, total.size)
        except ShareError as error:
            raise ShareError(f"share {position} is {error.message}") from None
        planes = zip(np.split(total, ends[:-1]), np.split(words, ends[:-1]), strict=True)
        for (part, own), modulus in zip(planes, WORD_MODULI, strict=True):
            if (own > np.uint64(modulus - 1)).any():
                raise ShareError(f"share {position} has a word that is not reduced")
            add(part, own, modulus)
    return total
