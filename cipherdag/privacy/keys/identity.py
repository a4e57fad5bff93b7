"""Ed25519 signatures (RFC 8032) show who sent a message, under keys pinned out of band.

Pinned is what two people compare by telephone: a pairing code, the fingerprint of keys as words. A
code commits to the whole fingerprint, which commits to the keys. A code is the first bits of the
fingerprint's scrypt hash (RFC 7914), so that whoever looks for other keys with the same code pays
for every try with 16 MiB and some 50 ms. If one of the two who compare made their keys honestly, an
attacker must find keys with a given code: nine words, 81 bits. A coordinator that shows two sites
different studies chooses both sides: any two studies with the same code will do, so the code of a
study has twice the words (docs/adr/0019).

Leaks:
    Public keys, fingerprints and signatures are public; the private key leaves its object only
    into the file that `SigningIdentity.save` creates. `draw_key` tells nothing of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cipherdag.errors import OutputError, ParameterError, PolicyRefusedError, SignatureError
from cipherdag.privacy.keys.pairkeys import hkdf
from cipherdag.privacy.secrecy import Secret, open_to_others
from cipherdag.privacy.wire import keyed_digest, same_digest, transcript

PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
_MAX_FILE_BYTES = 4096
_OWNER_ONLY = 0o600


class SigningIdentity(Secret):
    """An Ed25519 key pair, ``public`` 32 bytes of it; make one with `generate` or `load`."""

    __slots__ = ("_key", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> SigningIdentity:
        """A new key pair from the operating system's random source."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningIdentity:
        """Read a private key file.

        OutputError where it cannot be read, PolicyRefusedError where other users of the machine may
        read or change it, SignatureError where it does not hold an Ed25519 private key.
        """
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(_MAX_FILE_BYTES)
        except OSError as error:
            raise OutputError(
                f"cannot read the private key {path}: {error.strerror}",
                remedy=f"Restore {path} from a copy, or make it readable for this user.",
            ) from None
        if open_to_others(mode):
            raise PolicyRefusedError(
                f"the private key {path} is open to other users (mode {mode:03o})",
                remedy=f"Run `chmod 600 {path}`; if others could read it, make a new key.",
            )
        try:
            key = serialization.load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise SignatureError(
                f"{path} does not hold a private key", remedy=f"Restore {path} from a copy."
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise SignatureError(
                f"{path} holds a private key that is not Ed25519",
                remedy=f"Restore {path} from a copy.",
            )
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

    def sign(self, domain: bytes, *parts: bytes) -> bytes:
        """A signature over the domain and the parts, 64 bytes; the borders between them count."""
        return self._key.sign(transcript(domain, *parts))

    def draw_key(self) -> DrawKey:
        """The key of this party's own random numbers, the same as long as it keeps its identity."""
        return DrawKey(hkdf(self._key.private_bytes_raw(), b"cipherdag draws"))


class DrawKey(Secret):
    """A key of HMAC-SHA256, as a function from a digest to a seed; it does nothing else.

    A site's random numbers must be the same at every asking, or they could be averaged out: so they
    follow from its rows. They follow from this key too, so that nobody can test guesses of the
    rows. Whoever has the key, or the identity key that it is derived from, computes them for any
    rows. A site's contribution to numbers that the cohort draws together follows from it likewise.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, digest: bytes) -> bytes:
        """The seed of what is drawn about rows, or a cohort, with this digest, 32 bytes."""
        return keyed_digest(self._key, digest)


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


WORDS: Final = tuple(resources.files(__package__).joinpath("words.txt").read_text("utf-8").split())
"""The words of a pairing code: 512 in alphabetical order, nine bits each.

Chosen for this package: no two begin with the same four letters, differ in one letter alone, or
sound alike once voiced and unvoiced consonants, and vowels that are close, are taken for one. The
list is part of every code: a change to it, even of its order, gives every party another code.
"""


KEY_WORDS: Final = 9  # words of the code of a key that its owner made: 81 bits
STUDY_WORDS: Final = 18
"""Words of the code of a study, whose maker may have chosen it for its code: 162 bits."""

_BITS = 9
_SALT = b"cipherdag pairing code 1"
_COST, _BLOCK = 2**14, 8
_HEX_DIGITS = re.compile(r"[0-9a-f]{64}")
_FIRST_LETTERS = 4  # as many tell any two words of the list from each other


def pairing_code(fingerprint: str, words: int = KEY_WORDS) -> str:
    """A fingerprint as words to be read aloud, joined by hyphens.

    The fingerprint is SHA-256 as 64 hexadecimal digits, in any grouping; there are nine or more
    words. Raises ParameterError where it is no fingerprint.
    """
    plain = plain_fingerprint(fingerprint)
    if not _HEX_DIGITS.fullmatch(plain):
        raise ParameterError("a fingerprint has 64 hexadecimal digits")
    length = -(-words * _BITS // 8)
    derived = Scrypt(salt=_SALT, length=length, n=_COST, r=_BLOCK, p=1).derive(bytes.fromhex(plain))
    number = int.from_bytes(derived, "big") >> (8 * length - words * _BITS)
    places = [number >> (_BITS * k) & (len(WORDS) - 1) for k in reversed(range(words))]
    return "-".join(WORDS[index] for index in places)


def mismatch(heard: str, fingerprint: str, words: int = KEY_WORDS) -> str:
    """Says how a code or fingerprint that was read aloud differs from the expected one; or "".

    Heard are words of a code, each in full or its first four letters or more; or 64 hexadecimal
    digits. Case, spaces, hyphens, colons and commas do not count. Raises ParameterError where it is
    neither; a word that is none of the list is named with the nearest.
    """
    plain = plain_fingerprint(heard)
    if _HEX_DIGITS.fullmatch(plain):
        return "" if same_fingerprint(heard, fingerprint) else "the fingerprint is another"
    given = _words(heard, words)
    expected = pairing_code(fingerprint, words).split("-")
    other = [
        str(number) for number in range(1, words + 1) if given[number - 1] != expected[number - 1]
    ]
    if len(other) > words // 2:
        return f"it is another code, with {len(other)} of {words} words different"
    if len(other) > 1:
        return f"{len(other)} of {words} words are others: {', '.join(other)}"
    return f"word {other[0]} of {words} is another" if other else ""


def same_fingerprint(first: str, second: str) -> bool:
    """Whether two fingerprints agree; case, colons, dashes and spaces do not count."""
    return same_digest(plain_fingerprint(first).encode(), plain_fingerprint(second).encode())


def plain_fingerprint(fingerprint: str) -> str:
    """The digits alone, in lower case."""
    return re.sub(r"[\s:-]", "", fingerprint).lower()


def _words(heard: str, words: int) -> list[str]:
    spoken = re.findall(r"[^\W_]+", heard.lower())
    if len(spoken) != words or any(character.isdigit() for character in heard):
        raise ParameterError(
            f"a code has {words} words, here are {len(spoken)}: {heard.strip()[:200]!r}",
            remedy=f"Type the {words} words, or all 64 digits of the fingerprint.",
        )
    return [_word(number, word) for number, word in enumerate(spoken, 1)]


def _word(number: int, heard: str) -> str:
    """The one word of the list that was meant."""
    meant = [word for word in WORDS if word == heard]
    if not meant and len(heard) >= _FIRST_LETTERS:
        meant = [word for word in WORDS if word.startswith(heard)]
    if not meant:
        nearest = get_close_matches(heard, WORDS, n=3, cutoff=0.4)
        raise ParameterError(
            f"word {number} of the code, {heard[:40]!r}, is none of its list",
            remedy=f"Did they say {' or '.join(nearest)}? Ask, and type it again."
            if nearest
            else "Have this word spelt, and type it again.",
        )
    return meant[0]
