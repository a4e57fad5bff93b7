"""One key per pair of sites, agreed through a coordinator that cannot learn it.

Hybrid of X25519 (RFC 7748) and ML-KEM-768 (FIPS 203): breaking it takes breaking both, and
recording it now to break it with a quantum computer later fails. Keys are fresh in every session;
who sent them is shown by signatures over the offers, outside this module. For sites i < j of a
cohort, i encapsulates to j, and

    K_ij = HKDF-SHA256(x25519 || mlkem, info = "pair" | transcript | i | j | mlkem ciphertext)

Under such a key `SealingKey` encrypts for the other site (AES-256-GCM), and `AgreementKeys` shows
it by a tag that this site states something.

Leaks:
    Public keys and ciphertexts travel, and show the length of a plaintext. A tag is half of a keyed
    digest: neither the key nor the other half follows from it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cipherdag.errors import KeyAgreementError, ParameterError, ProtectionError
from cipherdag.privacy.secrecy import Secret, drawn, fresh_bytes
from cipherdag.privacy.wire import same_digest, transcript

KEY_BYTES = 32
X25519_BYTES = 32
MLKEM_CIPHERTEXT_BYTES = 1088
_MLKEM_SEED_BYTES = 64
_READ_KEYS = 1024
SECRET_KEY_BYTES = X25519_BYTES + _MLKEM_SEED_BYTES


class PairKey(Secret):
    """The 32-byte key that two sites share; it is only ever used through `derive`."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise KeyAgreementError(f"a pair key has {KEY_BYTES} bytes")
        self._key = bytes(key)

    def derive(self, purpose: bytes, *context: bytes) -> bytes:
        """`expand` of this key under a purpose and its context, 32 bytes."""
        return expand(self._key, purpose, *context)


def derive_each(keys: Iterable[PairKey], purpose: bytes, *context: bytes) -> list[bytes]:
    """Derives from every key as `PairKey.derive` does."""
    return expand_each([key._key for key in keys], purpose, *context)  # noqa: SLF001


class EphemeralKeys(Secret):
    """A site's key pairs for one session; the private halves die with this object."""

    __slots__ = ("_mlkem", "_x25519", "mlkem_public", "x25519_public")

    def __init__(self, x25519: X25519PrivateKey, mlkem: MLKEM768PrivateKey) -> None:
        self._x25519 = x25519
        self._mlkem = mlkem
        self.x25519_public = x25519.public_key().public_bytes_raw()
        self.mlkem_public = mlkem.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> EphemeralKeys:
        """Fresh keys from the operating system's random source; raises as `from_secret`."""
        return cls.from_secret(fresh_bytes(SECRET_KEY_BYTES))

    @classmethod
    def from_secret(cls, secret: bytes) -> EphemeralKeys:
        """The keys of `SECRET_KEY_BYTES` uniform bytes: an X25519 key, and a seed of ML-KEM-768.

        KeyAgreementError for more or fewer bytes, ProtectionError where ML-KEM is not installed.
        """
        if len(secret) != SECRET_KEY_BYTES:
            raise KeyAgreementError(f"the secret of two keys has {SECRET_KEY_BYTES} bytes")
        try:
            return cls(
                X25519PrivateKey.from_private_bytes(secret[:X25519_BYTES]),
                MLKEM768PrivateKey.from_seed_bytes(secret[X25519_BYTES:]),
            )
        except UnsupportedAlgorithm:
            raise ProtectionError(
                "the installed cryptography lacks ML-KEM-768",
                remedy="Install a wheel of cryptography from PyPI.",
            ) from None

    def exchange(self, peer_x25519: bytes) -> bytes:
        """The X25519 shared secret, 32 bytes; refuses this site's key and points of low order."""
        if same_digest(peer_x25519, self.x25519_public):
            raise KeyAgreementError("the other site's key is this site's own")
        try:
            return self._x25519.exchange(_x25519_public(peer_x25519))
        except ValueError:
            raise KeyAgreementError(
                "the other site's X25519 key has a wrong length or low order"
            ) from None

    def encapsulate(self, peer_mlkem: bytes) -> tuple[bytes, bytes]:
        """A fresh ML-KEM-768 shared secret for the peer (32 bytes) and its ciphertext (1088)."""
        if same_digest(peer_mlkem, self.mlkem_public):
            raise KeyAgreementError("the other site's key is this site's own")
        try:
            peer = _mlkem_public(peer_mlkem)
        except ValueError:
            raise KeyAgreementError("the other site's ML-KEM key is malformed") from None
        both = drawn(lambda: b"".join(peer.encapsulate()))
        return both[:KEY_BYTES], both[KEY_BYTES:]

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """The ML-KEM-768 shared secret, 32 bytes; an altered ciphertext gives another one."""
        if len(ciphertext) != MLKEM_CIPHERTEXT_BYTES:
            raise KeyAgreementError("the other site's ML-KEM ciphertext has a wrong length")
        return self._mlkem.decapsulate(ciphertext)


def agree_as_initiator(
    keys: EphemeralKeys,
    peer_x25519: bytes,
    peer_mlkem: bytes,
    transcript_digest: bytes,
    i: int,
    j: int,
) -> tuple[bytes, PairKey]:
    """Agree on the key of sites i < j at site i.

    The other site's keys have 32 and 1184 bytes; the digest is of all offers as this site saw them.
    Returned are the ML-KEM ciphertext for site j (1088 bytes), which everyone sees, and the key.
    Raises KeyAgreementError where a key is malformed, of low order, or this site's own.
    """
    _check_order(i, j)
    classical = keys.exchange(peer_x25519)
    quantum_safe, ciphertext = keys.encapsulate(peer_mlkem)
    return ciphertext, _pair_key(classical + quantum_safe, transcript_digest, i, j, ciphertext)


def agree_as_responder(
    keys: EphemeralKeys,
    peer_x25519: bytes,
    ciphertext: bytes,
    transcript_digest: bytes,
    i: int,
    j: int,
) -> PairKey:
    """Agree on the key of sites i < j at site j, from site i's X25519 key and ciphertext.

    Two sites that saw different offers, or whose ciphertext was altered on its way, come to
    different keys: what one seals the other cannot unseal, and their masks do not cancel. Raises as
    `agree_as_initiator`, and for a ciphertext of wrong length.
    """
    _check_order(i, j)
    classical = keys.exchange(peer_x25519)
    quantum_safe = keys.decapsulate(ciphertext)
    return _pair_key(classical + quantum_safe, transcript_digest, i, j, ciphertext)


def encode_position(site: int) -> bytes:
    """A site's position in its cohort as 4 bytes, which keys and seals are bound to."""
    return site.to_bytes(4, "big")


def hkdf(secret: bytes, purpose: bytes, *context: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) without salt; info is the length-prefixed purpose and context."""
    return expand(hmac.digest(bytes(KEY_BYTES), secret, "sha256"), purpose, *context)


def expand(key: bytes, purpose: bytes, *context: bytes) -> bytes:
    """HKDF-Expand-SHA256 (RFC 5869, section 2.3) of a uniform key, one block; info as in `hkdf`."""
    return expand_each([key], purpose, *context)[0]


def expand_each(keys: Iterable[bytes], purpose: bytes, *context: bytes) -> list[bytes]:
    """`expand` of every key under one purpose and context."""
    info = transcript(purpose, *context) + b"\x01"
    return [hmac.digest(key, info, "sha256") for key in keys]


# reading a public key of ML-KEM costs nearly as much as encapsulating to it
_x25519_public = lru_cache(maxsize=_READ_KEYS)(X25519PublicKey.from_public_bytes)
_mlkem_public = lru_cache(maxsize=_READ_KEYS)(MLKEM768PublicKey.from_public_bytes)


def _pair_key(
    secret: bytes, transcript_digest: bytes, i: int, j: int, ciphertext: bytes
) -> PairKey:
    positions = encode_position(i), encode_position(j)
    return PairKey(hkdf(secret, b"pair", transcript_digest, *positions, ciphertext))


def _check_order(i: int, j: int) -> None:
    if not 0 <= i < j:
        raise KeyAgreementError("the pair's positions are not in cohort order")


_NONCE_BYTES = 12
_TAG_BYTES = 16
SEAL_BYTES = _NONCE_BYTES + _TAG_BYTES  # how much longer a sealed message is than what was sealed


class SealingKey(Secret):
    """The AES-GCM key of a pair of sites for one purpose, ready for many messages.

    `sealing_keys` makes them, another for each purpose. Where both sites seal for each other, the
    purpose, or what a message is bound to, names the direction.
    """

    __slots__ = ("_cipher",)

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

    def tags(self, peers: Sequence[int], *parts: bytes) -> tuple[bytes, ...]:
        """Tags that show each of the sites that this one states the parts, 16 bytes each."""
        return tuple(
            both[:TAG_BYTES] if self._index < peer else both[TAG_BYTES:]
            for peer, both in zip(peers, self._words(peers, parts), strict=True)
        )

    def silent(self, peers: Sequence[int], tags: Sequence[bytes], *parts: bytes) -> list[int]:
        """The sites whose tags do not show that they stated the parts, found in constant time."""
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
