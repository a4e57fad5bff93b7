"""What one site tells another by way of the coordinator, so that the coordinator cannot forge it.

Two sites that share a pair key need no signature between them: a keyed digest under a key of that
pair, with the direction in it, shows who said what to whom. It costs a fiftieth of an Ed25519
verification, and stays unforgeable where the pair key does, against a quantum computer too.

Leaks:
    Nothing: a tag is a keyed digest, and the pair's key does not follow from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.privacy.keys.keyed import keyed_digest, same_digest
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, PairKey, place
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

TAG_BYTES = 32

_PURPOSE = b"agreement"


class AgreementKeys(Secret):
    """One site's keys to tag and check statements, a key for every other site.

    Args:
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every other position.
    """

    __slots__ = ("_index", "_keys")

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey]) -> None:
        self._index = index
        self._keys = {peer: key.derive(_PURPOSE) for peer, key in pair_keys.items()}

    @property
    def secret_size(self) -> int:
        """Of all keys together."""
        return KEY_BYTES * len(self._keys)

    def tag(self, peer: int, *parts: bytes) -> bytes:
        """What shows site ``peer`` that this site states the parts, 32 bytes.

        Leaks:
            Nothing to whoever lacks the key of the two sites.
        """
        return keyed_digest(self._keys[peer], place(self._index), place(peer), *parts)

    def holds(self, peer: int, tag: bytes, *parts: bytes) -> bool:
        """Whether site ``peer`` stated the parts to this site.

        Leaks:
            Nothing: the comparison takes the same time wherever the tags differ.
        """
        expected = keyed_digest(self._keys[peer], place(peer), place(self._index), *parts)
        return same_digest(expected, tag)
