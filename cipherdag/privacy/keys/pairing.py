"""Whose key it is, by telephone: a fingerprint as a few words, and what was heard held against it.

A code commits to the whole fingerprint, which commits to the keys. It is the beginning of scrypt
(RFC 7914) of it, so that whoever looks for other keys with the same code pays for every try with
16 MiB and some 50 ms. Where one of two people who compare has made their keys honestly, an
attacker must hit a code that is given: nine words, 81 bits. Where the one who is distrusted chooses
both sides, as a coordinator that shows two sites different studies, any two that agree will do, and
it takes twice the words (docs/adr/0019).

Leaks:
    Nothing: fingerprints are public, and so are their codes.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cipherdag.errors import ParameterError
from cipherdag.privacy.keys.code_words import WORDS
from cipherdag.privacy.keys.keyed import same_digest

KEY_WORDS: Final = 9
"""Words of the code of a key that its owner made: 81 bits."""
STUDY_WORDS: Final = 18
"""Words of the code of a study, whose maker may have chosen it for its code: 162 bits."""

_BITS = 9
_SALT = b"cipherdag pairing code 1"
_COST, _BLOCK = 2**14, 8
_LONG = re.compile(r"[0-9a-f]{64}")
_TOLD_BY = 4  # letters that no two words have in common


def pairing_code(fingerprint: str, words: int = KEY_WORDS) -> str:
    """A fingerprint as words to be read aloud, joined by hyphens.

    Args:
        fingerprint: SHA-256 as 64 hexadecimal digits, in any grouping.
        words: How many, at least nine.

    Raises:
        ParameterError: It is no fingerprint.
    """
    plain = plain_fingerprint(fingerprint)
    if not _LONG.fullmatch(plain):
        raise ParameterError("a fingerprint has 64 hexadecimal digits")
    length = -(-words * _BITS // 8)
    derived = Scrypt(salt=_SALT, length=length, n=_COST, r=_BLOCK, p=1).derive(bytes.fromhex(plain))
    number = int.from_bytes(derived, "big") >> (8 * length - words * _BITS)
    places = [number >> (_BITS * k) & (len(WORDS) - 1) for k in reversed(range(words))]
    return "-".join(WORDS[place] for place in places)


def mismatch(heard: str, fingerprint: str, words: int = KEY_WORDS) -> str:
    """How a code or fingerprint that was read aloud differs from a known one; empty if it does not.

    Args:
        heard: Words of a code, each in full or its first four letters or more; or 64 hexadecimal
            digits. Case, spaces, hyphens, colons and commas do not count.
        fingerprint: The fingerprint of what is in the file.
        words: Words of its code.

    Raises:
        ParameterError: It is neither; a word that is none of the list is named with the nearest.
    """
    plain = plain_fingerprint(heard)
    if _LONG.fullmatch(plain):
        return "" if same_fingerprint(heard, fingerprint) else "the fingerprint is another"
    given = _words(heard, words)
    known = pairing_code(fingerprint, words).split("-")
    other = [str(place) for place in range(1, words + 1) if given[place - 1] != known[place - 1]]
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
    """The words of a code as the list spells them."""
    spoken = re.findall(r"[^\W_]+", heard.lower())
    if len(spoken) != words or any(character.isdigit() for character in heard):
        raise ParameterError(
            f"a code has {words} words, here are {len(spoken)}: {heard.strip()[:200]!r}",
            remedy=f"Type the {words} words, or all 64 digits of the fingerprint.",
        )
    return [_word(place, word) for place, word in enumerate(spoken, 1)]


def _word(place: int, heard: str) -> str:
    """The one word of the list that was meant.

    Raises:
        ParameterError: There is none.
    """
    meant = [word for word in WORDS if word == heard]
    if not meant and len(heard) >= _TOLD_BY:
        meant = [word for word in WORDS if word.startswith(heard)]
    if not meant:
        nearest = get_close_matches(heard, WORDS, n=3, cutoff=0.4)
        raise ParameterError(
            f"word {place} of the code, {heard[:40]!r}, is none of its list",
            remedy=f"Did they say {' or '.join(nearest)}? Ask, and type it again."
            if nearest
            else "Have this word spelt, and type it again.",
        )
    return meant[0]
