import json
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import plain_masks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.errors import ParameterError, ShareError
from cipherdag.privacy.keys.secretsharing import (
    PRIME,
    SHARE_BYTES,
    WORDS,
    check_share,
    combine,
    split,
    words_of,
)
from cipherdag.privacy.residues import system_words

GOLDEN = Path(__file__).parents[1] / "support" / "golden" / "secret_shares.json"
SECRET = bytes(range(32))


def value_at_zero(points):
    """The polynomial through points, by Lagrange's formula with fractions, reduced at the end."""
    total = 0
    for x, y in points:
        weight = Fraction(1)
        for other, _ in points:
            if other != x:
                weight *= Fraction(-other, x - other)
        total += y * weight.numerator * pow(weight.denominator, -1, PRIME)
    return total % PRIME


def numbers(share):
    """The 13 numbers of a share."""
    return [int.from_bytes(share[k : k + 4], "big") for k in range(0, len(share), 4)]


def drawing(coefficients):
    """A source of words that makes a sharing draw these, those of the first power first."""
    flat = iter(np.ravel(coefficients).tolist())
    return lambda count: np.array([next(flat) << 33 for _ in range(count)], dtype=np.uint64)


@given(
    secret=st.binary(min_size=32, max_size=32),
    points=st.sets(st.integers(1, 200) | st.just(PRIME - 1), min_size=1, max_size=9),
    data=st.data(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_subset_of_the_threshold_or_more_recovers_the_secret(secret, points, data):
    threshold = data.draw(st.integers(1, len(points)))
    points = list(points)
    shares = dict(zip(points, split(secret, points, threshold), strict=True))
    chosen = data.draw(st.sets(st.sampled_from(points), min_size=threshold))
    some = {point: shares[point] for point in chosen}
    assert combine(some, threshold) == secret
    assert all(len(share) == SHARE_BYTES for share in shares.values())
    assert words_of(secret).tolist() == [
        value_at_zero([(x, numbers(y)[k]) for x, y in some.items()]) for k in range(WORDS)
    ]


def test_every_subset_of_one_sharing():
    points = range(1, 8)
    shares = dict(zip(points, split(SECRET, points, 4), strict=True))
    for size in range(8):
        for chosen in combinations(points, size):
            some = {point: shares[point] for point in chosen}
            if size < 4:
                with pytest.raises(ShareError, match="4 are needed"):
                    combine(some, 4)
            else:
                assert combine(some, 4) == SECRET


@pytest.mark.parametrize("threshold", [2, 3, 5])
def test_fewer_shares_fit_every_secret_equally_well(threshold):
    # for every candidate there is exactly one polynomial through it and threshold - 1 shares
    points = list(range(1, threshold))
    seen = split(SECRET, [*points, threshold], threshold)[:-1]
    for candidate in (bytes(32), b"\xff" * 32, SECRET, bytes(reversed(SECRET))):
        rows = [[pow(x, k, PRIME) for k in range(1, threshold)] for x in points]
        words = words_of(candidate).tolist()
        coefficients = np.transpose(
            [solved(rows, [numbers(share)[k] - words[k] for share in seen]) for k in range(WORDS)]
        )
        again = split(
            candidate, [*points, threshold], threshold, random_words=drawing(coefficients)
        )
        assert again[:-1] == seen


def solved(rows, right):
    """The one solution of a square linear system modulo the prime, by elimination."""
    size = len(rows)
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for k in range(size):
        pivot = next(r for r in range(k, size) if table[r][k] % PRIME)
        table[k], table[pivot] = table[pivot], table[k]
        inverse = pow(table[k][k], -1, PRIME)
        table[k] = [entry * inverse % PRIME for entry in table[k]]
        for r in range(size):
            if r != k:
                table[r] = [
                    (a - table[r][k] * b) % PRIME for a, b in zip(table[r], table[k], strict=True)
                ]
    return [row[-1] for row in table]


def test_a_single_share_is_uniform_whatever_the_secret():
    for secret in (bytes(32), b"\xff" * 32):
        shares = [numbers(split(secret, [1, 2], 2)[0])[k % WORDS] for k in range(4000)]
        for drawn in ([share * 20 // PRIME for share in shares], [share % 20 for share in shares]):
            counts = np.bincount(drawn, minlength=20)
            assert stats.chisquare(counts).pvalue > 1e-8


def test_an_altered_share_is_noticed():
    points = range(1, 6)
    shares = dict(zip(points, split(SECRET, points, 3), strict=True))
    other = split(SECRET, points, 3)[1]
    for wrong in (
        bytes([*shares[2][:40], shares[2][40] ^ 1, *shares[2][41:]]),
        bytes(SHARE_BYTES),
        shares[3],
        other,
    ):
        for spare in ((), (4,), (4, 5)):
            some = {point: shares[point] for point in (1, 3, *spare)} | {2: wrong}
            with pytest.raises(ShareError, match="do not fit"):
                combine(some, 3)


def test_a_share_shaped_to_shift_the_secret_is_noticed_by_its_digest():
    # adding the inverse of the share's weight moves a word of the secret by one, and nothing else
    points = (1, 2, 3, 4)
    shares = dict(zip(points, split(SECRET, points, 3), strict=True))
    weight = value_at_zero([(1, 0), (2, 1), (3, 0)])
    for word in range(WORDS):
        shifted = numbers(shares[2])
        shifted[word] = (shifted[word] + pow(weight, -1, PRIME)) % PRIME
        wrong = b"".join(number.to_bytes(4, "big") for number in shifted)
        for spare in ((), (4,)):
            some = {point: shares[point] for point in (1, 3, *spare)} | {2: wrong}
            with pytest.raises(ShareError, match="do not fit"):
                combine(some, 3)


def test_a_secret_of_any_digits_is_found_again_by_many():
    rng = np.random.default_rng(0)
    for secret in (bytes(32), b"\xff" * 32, rng.bytes(32)):
        points = rng.permutation(1000)[:143] + 1
        shares = dict(zip(points.tolist(), split(secret, points.tolist(), 75), strict=True))
        assert combine(shares, 75) == secret
        assert combine(dict(list(shares.items())[:75]), 75) == secret
        spoilt = {**shares, int(points[-1]): shares[int(points[0])]}
        with pytest.raises(ShareError, match="do not fit"):
            combine(spoilt, 75)


def test_malformed_shares_secrets_and_points_are_refused():
    shares = dict(zip((1, 2), split(SECRET, [1, 2], 2), strict=True))
    for wrong in (
        b"",
        shares[2][:-1],
        shares[2] + b"\0",
        bytes(SHARE_BYTES - 4) + PRIME.to_bytes(4, "big"),
        b"\xff" * SHARE_BYTES,
    ):
        with pytest.raises(ShareError, match="cut short"):
            check_share(wrong)
        with pytest.raises(ShareError, match="cut short"):
            combine({**shares, 2: wrong}, 2)
    with pytest.raises(ShareError, match="no share is taken at"):
        combine({1: shares[1], 1 + PRIME: shares[1]}, 2)
    with pytest.raises(ShareError):
        combine(shares, 0)
    for secret, points, threshold in (
        (b"", [1, 2], 2),
        (SECRET + b"\0", [1, 2], 2),
        (SECRET, [1, 1], 2),
        (SECRET, [0, 1], 2),
        (SECRET, [1, PRIME], 2),
        (SECRET, [1, 2], 0),
        (SECRET, [1, 2], 3),
        (SECRET, [], 1),
    ):
        with pytest.raises(ParameterError):
            split(secret, points, threshold)


def test_shares_are_those_of_the_golden_file():
    golden = json.loads(GOLDEN.read_text())
    assert golden == plain_masks.golden_shares()
    found = split(
        bytes.fromhex(golden["secret"]),
        golden["points"],
        golden["threshold"],
        random_words=drawing(golden["coefficients"]),
    )
    assert [share.hex() for share in found] == golden["shares"]


def test_coefficients_come_from_the_systems_random_source():
    assert split.__kwdefaults__ == {"random_words": system_words}
    assert split(SECRET, [1, 2], 2) != split(SECRET, [1, 2], 2)
