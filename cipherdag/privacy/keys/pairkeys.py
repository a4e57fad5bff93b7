"""One key per pair of sites, agreed through a coordinator that cannot learn it.

Hybrid of X25519 (RFC 7748) and ML-KEM-768 (FIPS 203): breaking it takes breaking both, and
recording it now to break it with a quantum computer later fails. Keys are fresh in every session;
who sent them is shown by signatures over the offers, outside this module. For sites i < j of a
cohort, i encapsulates to j, and

    K_ij = HKDF-SHA256(x25519 || mlkem, info = "pair" | transcript | i | j | mlkem ciphertext)

Leaks:
    Public keys and ciphertexts travel; nothing else.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from cipherdag.errors import KeyAgreementError, ProtectionError
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

    secret_size = KEY_BYTES

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

    secret_size = SECRET_KEY_BYTES

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

        Raises:
            KeyAgreementError: There are more or fewer bytes.
            ProtectionError: The installed ``cryptography`` was built without ML-KEM.
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
    different keys: what one seals the other cannot unseal, and their masks do not cancel.

    Raises:
        KeyAgreementError: As for `agree_as_initiator`, or a ciphertext of wrong length.
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
