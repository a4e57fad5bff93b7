"""Authenticated encryption between two sites, and message authentication, under their pair key.

`SealingKey` encrypts for the other site of a pair (AES-256-GCM); `AgreementKeys` shows it by a tag
that this site states something.

Leaks:
    The length of a plaintext. A tag is half of a keyed digest: neither the key nor the other half
    follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cipherdag.errors import KeyAgreementError, ParameterError
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, PairKey, derive_each, expand_each
from cipherdag.privacy.secrecy import Secret, fresh_bytes
from cipherdag.privacy.wire import same_digest

_NONCE_BYTES = 12
_TAG_BYTES = 16
SEAL_BYTES = _NONCE_BYTES + _TAG_BYTES
"""How much longer a sealed message is than what was sealed."""


class SealingKey(Secret):
    """The AES-GCM key of a pair of sites for one purpose, ready for many messages.

    `sealing_keys` makes them, another for each purpose. Where both sites seal for each other, the
    purpose, or what a message is bound to, names the direction.
    """

    __slots__ = ("_cipher",)

    secret_size = KEY_BYTES

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, plaintext: bytes, associated: bytes, nonce: bytes = b"") -> bytes:
        """Encrypt and authenticate (NIST SP 800-38D).

        The message is bound to ``associated``, which both sites know. The nonce has 12 fresh random
        bytes, drawn here where none are given. Returned are nonce, ciphertext and tag, `SEAL_BYTES`
        more than the plaintext, so that its length shows.
        """
        nonce = nonce or fresh_bytes(_NONCE_BYTES)
        if len(nonce) != _NONCE_BYTES:
            raise ParameterError(f"a nonce has {_NONCE_BYTES} bytes")
        return nonce + self._cipher.encrypt(nonce, plaintext, associated)

    def unseal(self, sealed: bytes, associated: bytes) -> bytes:
        """Undo `seal`; raises KeyAgreementError if text, key, purpose or ``associated`` differ."""
        nonce, ciphertext = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, ciphertext, associated)
        except (InvalidTag, ValueError):
            raise KeyAgreementError("a sealed message was altered or is for another key") from None


def sealing_keys(pair_keys: Iterable[PairKey], purpose: bytes) -> list[SealingKey]:
    """Derives a site's sealing keys for a purpose, one for every pair key."""
    return [SealingKey(key) for key in derive_each(pair_keys, b"seal", purpose)]


def seal_each(
    keys: Sequence[SealingKey], plaintexts: Sequence[bytes], associated: Sequence[bytes]
) -> tuple[bytes, ...]:
    """Seal a message for each of several sites, with its key; see `SealingKey.seal`."""
    drawn = fresh_bytes(_NONCE_BYTES * len(keys))
    nonces = [drawn[k : k + _NONCE_BYTES] for k in range(0, len(drawn), _NONCE_BYTES)]
    each = zip(keys, plaintexts, associated, nonces, strict=True)
    return tuple([key.seal(plain, bound, nonce) for key, plain, bound, nonce in each])


def seal(pair_key: PairKey, purpose: bytes, plaintext: bytes, associated: bytes) -> bytes:
    """`SealingKey.seal` with a key that is derived for this message."""
    return sealing_keys([pair_key], purpose)[0].seal(plaintext, associated)


def unseal(pair_key: PairKey, purpose: bytes, sealed: bytes, associated: bytes) -> bytes:
    """`SealingKey.unseal` with a key that is derived for this message."""
    return sealing_keys([pair_key], purpose)[0].unseal(sealed, associated)


TAG_BYTES = 16

_PURPOSE = b"agreement"


class AgreementKeys(Secret):
    """One site's keys to tag and check statements, a key for every other site.

    Two sites that share a pair key need no signature between them: a keyed digest under a key of
    that pair shows who said what to whom, and a coordinator that relays it cannot forge it. Its
    first half is the word of the earlier site to the later one, its second half the word of the
    later one. It costs a fiftieth of an Ed25519 verification, and stays unforgeable where the pair
    key does, against a quantum computer too.
    """

    __slots__ = ("_asked", "_index", "_keys", "_said")

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey]) -> None:
        self._index = index
        self._keys = dict(zip(pair_keys, derive_each(pair_keys.values(), _PURPOSE), strict=True))
        self._asked: tuple[tuple[int, ...], tuple[bytes, ...]] | None = None
        self._said: list[bytes] = []

    @property
    def secret_size(self) -> int:
        """Number of bytes of all keys together."""
        return KEY_BYTES * len(self._keys)

    def tags(self, peers: Sequence[int], *parts: bytes) -> tuple[bytes, ...]:
        """Tags that show each of the sites that this one states the parts, 16 bytes each."""
        return tuple(
            both[:TAG_BYTES] if self._index < peer else both[TAG_BYTES:]
            for peer, both in zip(peers, self._words(peers, parts), strict=True)
        )

    def silent(self, peers: Sequence[int], tags: Sequence[bytes], *parts: bytes) -> list[int]:
        """The sites whose tags do not show that they stated the parts to this one.

        Each comparison takes the same time wherever the tags differ.
        """
        expected = [
            both[:TAG_BYTES] if peer < self._index else both[TAG_BYTES:]
            for peer, both in zip(peers, self._words(peers, parts), strict=True)
        ]
        each = zip(peers, expected, tags, strict=True)
        return [peer for peer, right, tag in each if not same_digest(right, tag)]

    def _words(self, peers: Sequence[int], parts: tuple[bytes, ...]) -> list[bytes]:
        """Both halves of every pair's keyed digest of the parts; the last ones are cached."""
        asked = tuple(peers), parts
        if self._asked != asked:
            self._said = expand_each([self._keys[peer] for peer in peers], _PURPOSE, *parts)
            self._asked = asked
        return self._said
