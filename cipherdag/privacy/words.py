"""Words as they travel where the coordinator reads the sum itself: 8 bytes each.

Leaks:
    The words, to whoever carries them; masked ones are uniform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import ShareError
from cipherdag.privacy.fixedpoint import words_from_bytes, words_to_bytes
from cipherdag.privacy.residues import WORD_MODULI, Moduli, add

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.privacy.aggregation import WordVector


class WordCarrier:
    """Both ends, the sites' and the coordinator's; see `sums` for the verbs."""

    moduli: Moduli = WORD_MODULI
    opened_by_site = False
    secret_size = 0

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
