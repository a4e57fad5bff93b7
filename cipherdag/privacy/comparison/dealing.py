"""How a dealer's keys come to both holders by way of the coordinator, which reads none of them.

Leaks:
    The part that both keys have in common, which says nothing, and lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import ComparisonKeyError, KeyAgreementError
from cipherdag.privacy.comparison.keys import SECRET_BYTES, ComparisonKeys, DealtKeys, deal
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, PairKey, derive_each, place
from cipherdag.privacy.keys.sealing import SEAL_BYTES, seal, unseal
from cipherdag.privacy.keystream import Keystream
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.privacy.aggregation import WordVector
    from cipherdag.privacy.comparison.batch import Comparisons
    from cipherdag.privacy.comparison.keys import BitVector

SEALED_BYTES = SECRET_BYTES + SEAL_BYTES
"""Length of what a dealer seals for a holder, for any number of comparisons."""

_PURPOSE = b"comparison key"
_PAD = b"verdict pad"
_WORD_BITS = 64


class DealingKeys(Secret):
    """One site's keys to seal comparison keys for other sites, and to unseal theirs.

    Args:
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every position that shares one with it.
    """

    __slots__ = ("_index", "_keys")

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey]) -> None:
        self._index = index
        self._keys = dict(
            zip(pair_keys, map(PairKey, derive_each(pair_keys.values(), _PURPOSE)), strict=True)
        )

    @property
    def secret_size(self) -> int:
        """Of all keys together."""
        return KEY_BYTES * len(self._keys)

    def deal(self, batch: Comparisons, blinds: WordVector) -> tuple[bytes, tuple[bytes, bytes]]:
        """The common part of fresh keys, and what is sealed for the first and second holder.

        Raises:
            ParameterError: As `keys.deal`.

        Leaks:
            Nothing of the blinds to whoever has one holder's pair key at most.
        """
        dealt: DealtKeys = deal(batch, blinds)
        first, second = (
            seal(self._keys[peer], _direction(self._index), secret, batch.header(holder))
            for holder, (peer, secret) in enumerate(zip(batch.holders, dealt.secrets, strict=True))
        )
        return dealt.common, (first, second)

    def received(self, batch: Comparisons, common: bytes, sealed: bytes) -> ComparisonKeys:
        """This site's keys of a batch that it is a holder of.

        Raises:
            ComparisonKeyError: They are sealed for another site, dealer or batch, or as
                `ComparisonKeys`.

        Leaks:
            Nothing.
        """
        holder = batch.holders.index(self._index)
        key = self._keys[batch.dealer]
        try:
            secret = unseal(key, _direction(batch.dealer), sealed, batch.header(holder))
        except KeyAgreementError:
            raise ComparisonKeyError(
                "the comparison key was altered, or is for another holder or round"
            ) from None
        return ComparisonKeys(secret, common, batch, holder)

    def pad(self, batch: Comparisons, count: int) -> BitVector:
        """Bits that both holders of a batch add to their shares, shape (count,).

        The dealer knows both keys and what it added, so that a bare share would tell it about a bit
        of the sum; what two holders add alike cancels in the verdict.

        Leaks:
            Nothing: nobody but the two holders has the key that they follow from.
        """
        (other,) = set(batch.holders) - {self._index}
        stream = Keystream(self._keys[other].derive(_PAD, batch.header(0)))
        words = stream.words(-(-count // _WORD_BITS)).astype("<u8", copy=False)
        return np.unpackbits(words.view(np.uint8), count=count).astype(bool)


def _direction(dealer: int) -> bytes:
    return b"dealt by" + place(dealer)
