"""Threshold sharing of a 32-byte secret (Shamir, Communications of the ACM 22(11), 1979).

The secret is the value at 0 of a random polynomial of degree ``threshold - 1`` over the integers
modulo the Mersenne prime 2**521 - 1; a share is its value at another point.

Leaks:
    Nothing from fewer shares than the threshold: every secret fits them equally well.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from cipherdag.errors import ParameterError, ShareError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PRIME = (1 << 521) - 1
SECRET_BYTES = 32
SHARE_BYTES = 66


def split(
    secret: bytes,
    points: Sequence[int],
    threshold: int,
    *,
    random_below: Callable[[int], int] = secrets.randbelow,
) -> tuple[bytes, ...]:
    """Shares of a secret.

    Args:
        secret: 32 bytes.
        points: Where each share is taken: distinct, larger than 0 and below the prime.
        threshold: How many shares are needed to recover the secret.
        random_below: Draws the coefficients; uniform below its argument.

    Returns:
        One share of 66 bytes for every point, in their order.

    Raises:
        ParameterError: The secret has another length, a point is used twice or out of range, or
            the threshold is not between 1 and the number of points.

    Leaks:
        Nothing through fewer shares than the threshold.
    """
    if len(secret) != SECRET_BYTES:
        raise ParameterError(f"only a secret of {SECRET_BYTES} bytes is shared")
    if len(set(points)) != len(points) or not all(0 < point < PRIME for point in points):
        raise ParameterError("the points of shares are distinct, above 0 and below the prime")
    if not 1 <= threshold <= len(points):
        raise ParameterError("a threshold lies between 1 and the number of shares")
    coefficients = [random_below(PRIME) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret, "big"))
    shares = []
    for point in points:
        value = 0
        for coefficient in coefficients:
            value = value * point + coefficient  # a site's place has few bits: reduced once below
        shares.append((value % PRIME).to_bytes(SHARE_BYTES, "big"))
    return tuple(shares)


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret from at least ``threshold`` shares, given by point.

    All shares are interpolated (Newton's divided differences); the terms beyond the threshold are
    zero unless a share was altered. Without a spare share an alteration that moves the secret
    within its 256 bits of the field's 521 stays unnoticed, any other does not.

    Raises:
        ShareError: There are too few shares, one is malformed, or they do not fit together.

    Leaks:
        The secret, which enough shares stand for.
    """
    if not 1 <= threshold <= len(shares):
        raise ShareError(f"{len(shares)} pieces came, but {threshold} are needed")
    points: list[int] = []
    terms: list[int] = []
    for point, share in shares.items():
        check_share(share)
        value, product = _newton(terms, points, point)
        if not product:
            raise ShareError("two pieces are for the same point")
        difference = int.from_bytes(share, "big") - value
        terms.append(difference * pow(product, -1, PRIME) % PRIME)
        points.append(point)
    secret, _ = _newton(terms, points, 0)
    if any(terms[threshold:]) or secret >> 8 * SECRET_BYTES:
        raise ShareError("the pieces do not fit together: one was altered")
    return secret.to_bytes(SECRET_BYTES, "big")


def check_share(share: bytes) -> None:
    """Raise ShareError for bytes that are not a number below the prime."""
    if len(share) != SHARE_BYTES or int.from_bytes(share, "big") >= PRIME:
        raise ShareError("a piece is cut short, too long or not reduced")


def _newton(terms: Sequence[int], points: Sequence[int], at: int) -> tuple[int, int]:
    """The polynomial's value at a point, and the product that the next term is to be taken by."""
    value, product = 0, 1
    for term, point in zip(terms, points, strict=True):
        value = (value + term * product) % PRIME
        product = product * (at - point) % PRIME
    return value, product
