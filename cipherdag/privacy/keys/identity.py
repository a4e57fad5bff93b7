"""Ed25519 signatures (RFC 8032) show who sent a message, under keys pinned out of band.

Leaks:
    Public keys, fingerprints and signatures are public; the private key leaves its object only
    into the file that `SigningIdentity.save` creates. `draw_key` tells nothing of it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from cipherdag.errors import OutputError, PolicyRefusedError, SignatureError
from cipherdag.privacy.keys.pairkeys import hkdf
from cipherdag.privacy.secrecy import Secret, open_to_others
from cipherdag.privacy.wire import keyed_digest, transcript


class DrawKey(Secret):
    """A key of HMAC-SHA256, as a function from a digest to a seed; it does nothing else.

    A site's random numbers are the same at every asking, or they could be averaged out: so they
    follow from its rows. They follow from this key too, so that nobody can test guesses of the
    rows. Whoever has the key, or the identity key that it is derived from, computes them for any
    rows. What a site adds to a cohort's lot follows from the key likewise. Made by
    `SigningIdentity.draw_key`.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def secret_size(self) -> int:
        """Number of secret bytes."""
        return len(self._key)

    def __call__(self, digest: bytes) -> bytes:
        """The seed of what is drawn about rows, or a cohort, with this digest, 32 bytes."""
        return keyed_digest(self._key, digest)


PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
_PRIVATE_BYTES = 32
_MAX_FILE_BYTES = 4096
_OWNER_ONLY = 0o600


class SigningIdentity(Secret):
    """An Ed25519 key pair; make one with `generate` or `load`."""

    __slots__ = ("_key", "_public")

    secret_size = _PRIVATE_BYTES

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._public = key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> SigningIdentity:
        """A new key pair from the operating system's random source."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningIdentity:
        """Read a private key file.

        Raises:
            OutputError: The file cannot be read.
            PolicyRefusedError: Other users of the machine may read or change the file.
            SignatureError: It does not hold an Ed25519 private key.
        """
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(_MAX_FILE_BYTES)
        except OSError as error:
            raise OutputError(f"cannot read the private key {path}: {error.strerror}") from None
        if open_to_others(mode):
            raise PolicyRefusedError(
                f"the private key {path} is open to other users (mode {mode:03o})",
                remedy=f"Run `chmod 600 {path}`; if others could read it, make a new key.",
            )
        try:
            key = serialization.load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise SignatureError(f"{path} does not hold a private key") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise SignatureError(f"{path} holds a private key that is not Ed25519")
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the private key (PEM, PKCS #8) to a new file of its owner's, or an OutputError."""
        content = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(f"cannot create the private key {path}: {error.strerror}") from None

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._public

    def sign(self, domain: bytes, *parts: bytes) -> bytes:
        """A signature over the domain and the parts, 64 bytes; the borders between them count."""
        return self._key.sign(transcript(domain, *parts))

    def draw_key(self) -> DrawKey:
        """The key of this party's own random numbers, the same as long as it keeps its identity."""
        return DrawKey(hkdf(self._key.private_bytes_raw(), b"cipherdag draws"))


def verify(public: bytes, signature: bytes, domain: bytes, *parts: bytes) -> None:
    """Check a signature of `SigningIdentity.sign`; raises SignatureError where anything differs."""
    try:
        key = Ed25519PublicKey.from_public_bytes(public)
        key.verify(signature, transcript(domain, *parts))
    except (InvalidSignature, ValueError):
        raise SignatureError("the signature does not verify under the pinned key") from None


def fingerprint(public: bytes) -> str:
    """SHA-256 of a public key as 32 hexadecimal pairs joined by colons, to compare by voice."""
    if len(public) != PUBLIC_BYTES:
        raise SignatureError(f"a public key has {PUBLIC_BYTES} bytes")
    return hashlib.sha256(public).digest().hex(":")
