"""What one site tells another by way of the coordinator, so that the coordinator cannot forge it.

Two sites that share a pair key need no signature between them: a keyed digest under a key of that
pair shows who said what to whom; its first half is the word of the earlier site to the later one,
its second half the word of the later one. It costs a fiftieth of an Ed25519 verification, and stays
unforgeable where the pair key does, against a quantum computer too.

Leaks:
    Nothing: a tag is half of a keyed digest; neither the key nor the other half follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cipherdag.privacy.keys.keyed import same_digest
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, PairKey, derive_each, expand_each
from cipherdag.privacy.secrecy import Secret

TAG_BYTES = 16

_PURPOSE = b"agreement"


class AgreementKeys(Secret):
    """One site's keys to tag and check statements, a key for every other site.

    Args:
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every position that shares one with it.
    """

    __slots__ = ("_asked", "_index", "_keys", "_said")

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey]) -> None:
        self._index = index
        self._keys = dict(zip(pair_keys, derive_each(pair_keys.values(), _PURPOSE), strict=True))
        self._asked: tuple[tuple[int, ...], tuple[bytes, ...]] | None = None
        self._said: list[bytes] = []

    @property
    def secret_size(self) -> int:
        """Of all keys together."""
        return KEY_BYTES * len(self._keys)

    def tags(self, peers: Sequence[int], *parts: bytes) -> tuple[bytes, ...]:
        """What shows each of the sites that this one states the parts, 16 bytes each.

        Leaks:
            Nothing to whoever lacks the key of the two sites.
        """
        return tuple(
            both[:TAG_BYTES] if self._index < peer else both[TAG_BYTES:]
            for peer, both in zip(peers, self._words(peers, parts), strict=True)
        )

    def silent(self, peers: Sequence[int], tags: Sequence[bytes], *parts: bytes) -> list[int]:
        """Those of the sites that did not state the parts to this one, by their tags.

        Leaks:
            Nothing: each comparison takes the same time wherever the tags differ.
        """
        expected = [
            both[:TAG_BYTES] if peer < self._index else both[TAG_BYTES:]
            for peer, both in zip(peers, self._words(peers, parts), strict=True)
        ]
        each = zip(peers, expected, tags, strict=True)
        return [peer for peer, right, tag in each if not same_digest(right, tag)]

    def _words(self, peers: Sequence[int], parts: tuple[bytes, ...]) -> list[bytes]:
        """What every pair says of the parts, both ways; what was said last is kept."""
        asked = tuple(peers), parts
        if self._asked != asked:
            self._said = expand_each([self._keys[peer] for peer in peers], _PURPOSE, *parts)
            self._asked = asked
        return self._said
