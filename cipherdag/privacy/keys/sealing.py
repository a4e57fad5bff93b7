"""Bytes that one site of a pair locks for the other: AES-256-GCM under a key of their pair key.

Leaks:
    The length of the plaintext.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cipherdag.errors import KeyAgreementError
from cipherdag.privacy.keys.pairkeys import derive_each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cipherdag.privacy.keys.pairkeys import PairKey

_NONCE_BYTES = 12
_TAG_BYTES = 16
SEAL_BYTES = _NONCE_BYTES + _TAG_BYTES
"""How much longer a sealed message is than what was sealed."""


def seal(pair_key: PairKey, purpose: bytes, plaintext: bytes, associated: bytes) -> bytes:
    """Encrypt and authenticate (NIST SP 800-38D), with a fresh random nonce.

    Args:
        pair_key: The key of the two sites.
        purpose: What is sealed; each purpose has its own key. Where both sites of a pair seal for
            each other, it names the direction too.
        plaintext: What only the other site may read.
        associated: What the seal is bound to and both sites know, such as the transcript.

    Returns:
        Nonce, ciphertext and tag: `SEAL_BYTES` more than the plaintext.

    Leaks:
        The length of the plaintext.
    """
    return seal_each([pair_key], purpose, [(plaintext, associated)])[0]


def seal_each(
    pair_keys: Iterable[PairKey], purpose: bytes, messages: Iterable[tuple[bytes, bytes]]
) -> tuple[bytes, ...]:
    """`seal` for every site of some: plaintexts, and what each is bound to."""
    keys, sealed = derive_each(pair_keys, b"seal", purpose), []
    for key, (plaintext, associated) in zip(keys, messages, strict=True):
        nonce = os.urandom(_NONCE_BYTES)
        sealed.append(nonce + AESGCM(key).encrypt(nonce, plaintext, associated))
    return tuple(sealed)


def unseal(pair_key: PairKey, purpose: bytes, sealed: bytes, associated: bytes) -> bytes:
    """Undo `seal`.

    Raises:
        KeyAgreementError: It was altered, cut short, or sealed under another key, purpose or
            associated text.

    Leaks:
        Nothing.
    """
    cipher = AESGCM(pair_key.derive(b"seal", purpose))
    try:
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated)
    except (InvalidTag, ValueError):
        raise KeyAgreementError("a sealed message was altered or is for another key") from None
