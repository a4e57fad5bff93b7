"""Threshold sharing of a 32-byte secret (Shamir, Communications of the ACM 22(11), 1979).

The secret and the beginning of its SHA-256 are 13 words of 30 bits. Each word is the value at 0 of
a random polynomial of degree ``threshold - 1`` over the integers modulo the Mersenne prime
2**31 - 1; a share is the values of all 13 at another point.

Leaks:
    Nothing from fewer shares than the threshold: every secret fits them equally well.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import ParameterError, ShareError
from cipherdag.privacy.residues import Draw, system_words, uniform

Elements = NDArray[np.uint64]
"""Numbers below the prime."""

PRIME = (1 << 31) - 1
SECRET_BYTES = 32
WORDS = 13
SHARE_BYTES = 4 * WORDS

_CHECK_BYTES = 16
_WORD_BITS = 30
_HALF_BITS = 16
_HALF = np.uint64((1 << _HALF_BITS) - 1)
_ORDER = np.uint64(PRIME)


def split(
    secret: bytes, points: Sequence[int], threshold: int, *, random_words: Draw = system_words
) -> tuple[bytes, ...]:
    """Shares of a secret.

    The secret has 32 bytes. Points are distinct, above 0 and below the prime; each has a share of
    52 bytes, in their order. Coefficients come from ``random_words``, those of the first power
    first. Raises ParameterError where the secret has another length, a point is used twice or out
    of range, or the threshold is not between 1 and the number of points.
    """
    if len(secret) != SECRET_BYTES:
        raise ParameterError(f"only a secret of {SECRET_BYTES} bytes is shared")
    if len(set(points)) != len(points) or not all(0 < point < PRIME for point in points):
        raise ParameterError("the points of shares are distinct, above 0 and below the prime")
    if not 1 <= threshold <= len(points):
        raise ParameterError("a threshold lies between 1 and the number of shares")
    terms = threshold - 1
    coefficients = uniform(random_words, terms * WORDS, PRIME).reshape(terms, WORDS)
    values = _product(_powers(np.array(points, dtype=np.uint64), terms), coefficients)
    values = _reduced(values + words_of(secret))
    written = values.astype(">u4").tobytes()
    return tuple([written[k : k + SHARE_BYTES] for k in range(0, len(written), SHARE_BYTES)])


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret from at least ``threshold`` shares, given by point.

    The shares beyond the threshold have to be values of the polynomials through the others, and the
    secret has to have its digest: an altered share is noticed, with a spare one or without. Raises
    ShareError where there are too few shares, one is malformed, or they do not fit together.
    """
    if not 1 <= threshold <= len(shares):
        raise ShareError(f"{len(shares)} pieces came, but {threshold} are needed")
    if not all(0 < point < PRIME for point in shares):
        raise ShareError("a piece is for a point that no share is taken at")
    points = np.array([*shares], dtype=np.uint64)
    values = np.stack([_read(share) for share in shares.values()])
    at = np.append(points[threshold:], np.uint64(0))
    interpolated = _product(_weights(at, points[:threshold]), values[:threshold])
    secret = _secret_of(interpolated[-1])
    if secret is None or (interpolated[:-1] != values[threshold:]).any():
        raise ShareError("the pieces do not fit together: one was altered")
    return secret


def check_share(share: bytes) -> None:
    """Raise ShareError for bytes that are not 13 numbers below the prime."""
    _read(share)


def words_of(secret: bytes) -> Elements:
    """The values at 0: the secret and the beginning of its digest, 30 bits a word, lowest first."""
    whole = int.from_bytes(secret + _check_of(secret), "big")
    words = [whole >> _WORD_BITS * k & ((1 << _WORD_BITS) - 1) for k in range(WORDS)]
    return np.array(words, dtype=np.uint64)


def _secret_of(words: Elements) -> bytes | None:
    """Undo `words_of`; None where the digest is another."""
    whole = sum(word << _WORD_BITS * k for k, word in enumerate(words.tolist()))
    if whole >> 8 * (SECRET_BYTES + _CHECK_BYTES):
        return None
    written = whole.to_bytes(SECRET_BYTES + _CHECK_BYTES, "big")
    secret, check = written[:SECRET_BYTES], written[SECRET_BYTES:]
    return secret if _check_of(secret) == check and (words_of(secret) == words).all() else None


def _check_of(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()[:_CHECK_BYTES]


def _read(share: bytes) -> Elements:
    if len(share) == SHARE_BYTES:
        values = np.frombuffer(share, dtype=">u4").astype(np.uint64)
        if (values < _ORDER).all():
            return values
    raise ShareError("a piece is cut short, too long or not reduced")


def _powers(points: Elements, terms: int) -> Elements:
    """Powers 1, 2, ... of every point, shape (points, terms)."""
    powers = points[:, None][:, :terms]
    while powers.shape[1] < terms:
        missing = terms - powers.shape[1]
        powers = np.hstack([powers, _reduced(powers[:, :missing] * powers[:, -1:])])
    return powers


def _weights(at: Elements, points: Elements) -> Elements:
    """Lagrange weights of distinct points in the value at each of ``at``, shape (at, points)."""
    gaps = _reduced(points[:, None] + (_ORDER - points))
    np.fill_diagonal(gaps, 1)
    far = _reduced(at[:, None] + (_ORDER - points))
    below = _reduced(far * _products(gaps)).tolist()
    inverses = [[pow(each, -1, PRIME) for each in row] for row in below]
    return _reduced(_products(far)[:, None] * np.array(inverses, dtype=np.uint64))


def _products(rows: Elements) -> Elements:
    product = np.ones(len(rows), dtype=np.uint64)
    for column in rows.T:
        product = _reduced(product * column)
    return product


def _product(first: Elements, second: Elements) -> Elements:
    """The matrix product, exact: halves of 16 bits in floats, of which 2**20 products fit."""
    rows, columns = len(first), second.shape[1]
    halves = np.vstack([first >> _HALF_BITS, first & _HALF]).astype(np.float64)
    others = np.hstack([second >> _HALF_BITS, second & _HALF]).astype(np.float64)
    whole = _reduced((halves @ others).astype(np.uint64))
    high, low = whole[:rows], whole[rows:]
    middle = _reduced(high[:, columns:] + low[:, :columns])
    top: Elements = _reduced(high[:, :columns] << np.uint64(2 * _HALF_BITS))
    return _reduced(top + (middle << _HALF_BITS) + low[:, columns:])


def _reduced(numbers: Elements) -> Elements:
    """Reduces modulo the prime; numpy's `%` would be slower than its division."""
    return numbers - numbers // _ORDER * _ORDER
