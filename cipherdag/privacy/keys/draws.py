"""The key that a site's own random numbers follow from, beside its rows.

What a site draws or blurs has to be the same at every asking, or it would be averaged out; so it
follows from the rows, and from this key, so that nobody tries which rows it would follow from.

Leaks:
    Nothing: numbers drawn under the key cannot be told from chance without it. Whoever has it, or
    the identity key that it is derived from, computes them for any rows.
"""

from __future__ import annotations

from cipherdag.privacy.keys.keyed import keyed_digest
from cipherdag.privacy.secrecy import Secret


class DrawKey(Secret):
    """A key of HMAC-SHA256, as a function from a digest of rows to a seed; it does nothing else.

    Made by `SigningIdentity.draw_key`.

    Args:
        key: 32 bytes.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def secret_size(self) -> int:
        """Number of secret bytes."""
        return len(self._key)

    def __call__(self, digest: bytes) -> bytes:
        """The seed of what is drawn about rows with this digest, 32 bytes."""
        return keyed_digest(self._key, digest)
