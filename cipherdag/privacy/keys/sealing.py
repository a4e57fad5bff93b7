"""Bytes that one site of a pair locks for the other: AES-256-GCM under a key of their pair key.

Leaks:
    The length of the plaintext.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cipherdag.errors import KeyAgreementError, ParameterError
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, PairKey, derive_each
from cipherdag.privacy.secrecy import Secret

_NONCE_BYTES = 12
_TAG_BYTES = 16
SEAL_BYTES = _NONCE_BYTES + _TAG_BYTES
"""How much longer a sealed message is than what was sealed."""


class SealingKey(Secret):
    """What both sites of a pair seal with for one purpose, ready for many messages.

    `sealing_keys` makes them, another for each purpose. Where both sites seal for each other, the
    purpose, or what a message is bound to, names the direction.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @property
    def secret_size(self) -> int:
        """Of the key."""
        return KEY_BYTES

    def seal(self, plaintext: bytes, associated: bytes, nonce: bytes = b"") -> bytes:
        """Encrypt and authenticate (NIST SP 800-38D).

        Args:
            plaintext: What only the other site may read.
            associated: What the seal is bound to and both sites know, such as the transcript.
            nonce: 12 fresh random bytes; drawn here where none are given.

        Returns:
            Nonce, ciphertext and tag: `SEAL_BYTES` more than the plaintext.

        Leaks:
            The length of the plaintext.
        """
        nonce = nonce or os.urandom(_NONCE_BYTES)
        if len(nonce) != _NONCE_BYTES:
            raise ParameterError(f"a nonce has {_NONCE_BYTES} bytes")
        return nonce + self._cipher.encrypt(nonce, plaintext, associated)

    def unseal(self, sealed: bytes, associated: bytes) -> bytes:
        """Undo `seal`.

        Raises:
            KeyAgreementError: It was altered, cut short, or sealed under another key, purpose or
                associated text.

        Leaks:
            Nothing.
        """
        nonce, ciphertext = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, ciphertext, associated)
        except (InvalidTag, ValueError):
            raise KeyAgreementError("a sealed message was altered or is for another key") from None


def sealing_keys(pair_keys: Iterable[PairKey], purpose: bytes) -> list[SealingKey]:
    """What a site seals with for a purpose, for every other site of some."""
    return [SealingKey(key) for key in derive_each(pair_keys, b"seal", purpose)]


def seal_each(
    keys: Sequence[SealingKey], plaintexts: Sequence[bytes], associated: Sequence[bytes]
) -> tuple[bytes, ...]:
    """A message for every site of some, each sealed with its own key; see `SealingKey.seal`."""
    drawn = os.urandom(_NONCE_BYTES * len(keys))
    nonces = [drawn[k : k + _NONCE_BYTES] for k in range(0, len(drawn), _NONCE_BYTES)]
    each = zip(keys, plaintexts, associated, nonces, strict=True)
    return tuple([key.seal(plain, bound, nonce) for key, plain, bound, nonce in each])


def seal(pair_key: PairKey, purpose: bytes, plaintext: bytes, associated: bytes) -> bytes:
    """`SealingKey.seal` of a key that seals once."""
    return sealing_keys([pair_key], purpose)[0].seal(plaintext, associated)


def unseal(pair_key: PairKey, purpose: bytes, sealed: bytes, associated: bytes) -> bytes:
    """`SealingKey.unseal` of a key that unseals once."""
    return sealing_keys([pair_key], purpose)[0].unseal(sealed, associated)
