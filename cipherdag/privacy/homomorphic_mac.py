"""A homomorphic message authentication code: tags add up with answers, so that sites verify a sum.

The sites share a key that the coordinator lacks. In every row of a plane of words x_1, x_2, ...
modulo a prime m, site i adds the tag

    h_i = k_0 + sum_j k_j x_ij mod m

with uniform k_0, k_1, ... drawn under the key for the question's digest, the plane and the row.
Over n sites the tags add up to n k_0 + sum_j k_j X_j, where X_j are the sums. Whoever alters a sum
without the key has to guess a uniform residue, as k_0 hides what the k_j are (Wegman and Carter,
1981); a plane of small modulus has as many tags a row as make the chance of that at most 2**-50.

Leaks:
    Nothing: the sum of the tags follows from the sums, the key and the number of sites. Under no
    protection at all whoever sees a site's words sees its tag, which promises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cipherdag.arrays import WordVector
from cipherdag.errors import ForgedSumError, KeyAgreementError
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, expand
from cipherdag.privacy.keystream import Keystream
from cipherdag.privacy.residues import Moduli, inner
from cipherdag.privacy.secrecy import Secret
from cipherdag.privacy.wire import same_digest

ROW_WORDS = 4096
"""Words of a row: a check word, tags, and values; the last row of a plane may be shorter."""

_FORGERY_BITS = 50


def tags_per_row(modulus: int) -> int:
    """Number of tags in a row of residues of this modulus: 1 from 51 bits on."""
    return -(-_FORGERY_BITS // (modulus.bit_length() - 1))


def head_words(modulus: int) -> int:
    """Words of a row that are not values: a check word that is zero, and the tags."""
    return 1 + tags_per_row(modulus)


class MacKey(Secret):
    """The 32 bytes that all sites of a session share and the coordinator lacks."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise KeyAgreementError(f"a sum key has {KEY_BYTES} bytes")
        self._key = bytes(key)

    def same_as(self, other: MacKey) -> bool:
        """Whether both are one key."""
        return same_digest(self._key, other._key)

    def tag(self, words: WordVector, lengths: Sequence[int], moduli: Moduli, digest: bytes) -> None:
        """Write one site's tags in place.

        Words are residues, plane after plane, as `fixedpoint.encode` yields them; moduli are primes
        of at most 56 bits. A digest must never come again with other words.
        """
        for row, tags in self._tags(words, lengths, moduli, digest, n_sites=1):
            row[1 : 1 + len(tags)] = tags

    def check(
        self,
        words: WordVector,
        lengths: Sequence[int],
        moduli: Moduli,
        digest: bytes,
        *,
        n_sites: int,
    ) -> None:
        """Refuse words that are not the sum over ``n_sites`` sites.

        They are said to be the sums of tagged words, plane after plane; the rest is as for `tag`.
        Raises ForgedSumError where a word is not reduced, a check word not zero, or a tag not that
        of the sums; a forgery passes with a chance of at most 2**-50.
        """
        reduced = bool((words < np.repeat(np.array(moduli, dtype=np.uint64), lengths)).all())
        if not reduced or not all(
            row[0] == 0 and row[1 : 1 + len(tags)].tolist() == tags
            for row, tags in self._tags(words, lengths, moduli, digest, n_sites=n_sites)
        ):
            raise ForgedSumError("the disclosed sum is not the sum of the sites' answers")

    def _tags(
        self,
        words: WordVector,
        lengths: Sequence[int],
        moduli: Moduli,
        digest: bytes,
        *,
        n_sites: int,
    ) -> Iterator[tuple[WordVector, list[int]]]:
        """Every row, and the tags that it has if it is a sum over ``n_sites`` sites."""
        starts = np.cumsum([0, *lengths[:-1]])
        for plane, (start, length, modulus) in enumerate(zip(starts, lengths, moduli, strict=True)):
            streams = [
                Keystream(expand(self._key, b"sum tag", digest, bytes([plane, number])))
                for number in range(tags_per_row(modulus) if length else 0)
            ]
            for first in range(start, start + length, ROW_WORDS):
                row = words[first : min(first + ROW_WORDS, start + length)]
                values = row[1 + len(streams) :]
                tags = []
                for stream in streams:
                    keys = stream.residues(1 + values.size, modulus)
                    weighed = inner(keys[1:], values, modulus)
                    tags.append((n_sites * int(keys[0]) + weighed) % modulus)
                yield row, tags
