"""Comparison functions with payloads: the definition on small domains, secrecy of a key, laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.privacy.mpc.payloads import (
    FLAGS,
    BlockHash,
    deal_payloads,
    evaluate_payloads,
    key_bytes,
    levels,
)

HASHED = BlockHash(bytes(range(16)))


def dealt(rng, bits, alphas, turned, payloads=None):
    """Roots, payloads and keys."""
    count = len(alphas)
    roots = rng.integers(0, 2**64, (2, count, 2), dtype=np.uint64)
    roots[..., 0] &= ~FLAGS
    if payloads is None:
        payloads = rng.integers(0, 2**64, count, dtype=np.uint64)
    alphas, turned = np.array(alphas, np.uint64), np.array(turned, np.uint64)
    return roots, payloads, deal_payloads(HASHED, alphas, bits, roots, payloads, turned)


def both(roots, keys, points, bits):
    return [
        evaluate_payloads(HASHED, roots[h], keys, points, second=bool(h), bits=bits) for h in (0, 1)
    ]


@pytest.mark.parametrize("bits", [2, 3, 4, 6])
def test_every_point_of_every_function_on_small_domains(bits):
    rng = np.random.default_rng(bits)
    alphas = np.tile(np.arange(2**bits), 2)
    turned = np.repeat([0, 1], 2**bits)
    roots, payloads, keys = dealt(rng, bits, alphas, turned)
    points = np.repeat(np.arange(2**bits, dtype=np.uint64)[:, None], alphas.size, axis=1)
    first, second = both(roots, keys, points, bits)
    wanted = np.where((points < alphas) ^ turned.astype(bool), payloads, 0)
    assert (first + second == wanted).all()


@given(st.integers(2, 63), st.integers(0, 2**32), st.booleans())
@settings(max_examples=60)
def test_around_alpha_and_at_both_ends(bits, seed, turned):
    rng = np.random.default_rng(seed)
    end = 2**bits - 1
    alphas = [0, 1, end, end // 2, int(rng.integers(0, end, endpoint=True))]
    roots, payloads, keys = dealt(rng, bits, alphas, [turned] * len(alphas))
    near = [[min(max(a + d, 0), end) for a in alphas] for d in (-2, -1, 0, 1, 2)]
    points = np.array([*near, [0] * 5, [end] * 5], dtype=np.uint64)
    first, second = both(roots, keys, points, bits)
    below = points < np.array(alphas, dtype=np.uint64)
    assert (first + second == np.where(below ^ turned, payloads, 0)).all()


def test_a_key_is_as_long_as_it_says_and_chunks_change_nothing():
    rng = np.random.default_rng(3)
    alphas = rng.integers(0, 2**10, 9000)
    roots, payloads, keys = dealt(rng, 10, alphas, np.zeros(9000))
    assert sum(item.nbytes for item in keys) == key_bytes(10, 9000)
    assert keys.corrections.shape == (levels(10), 9000, 2)
    points = rng.integers(0, 2**10, (1, 9000), dtype=np.uint64)
    first, second = both(roots, keys, points, 10)
    assert (first + second == np.where(points < alphas, payloads, 0)).all()
    some = slice(4000, 4200)
    alone = evaluate_payloads(
        HASHED, roots[0, some], keys.part(some), points[:, some], second=False, bits=10
    )
    assert (alone == first[:, some]).all()


def test_what_one_key_yields_is_uniform_wherever_alpha_lies():
    rng = np.random.default_rng(5)
    count = 20_000
    for alpha, turned, payload in ((0, 0, 1), (37, 1, 1), (63, 0, 2**63 + 1)):
        payloads = np.full(count, payload, dtype=np.uint64)
        roots, _, keys = dealt(rng, 6, np.full(count, alpha), np.full(count, turned), payloads)
        points = np.full((2, count), alpha, dtype=np.uint64)
        points[1] = (alpha + 1) % 64
        for share in both(roots, keys, points, 6):
            for words in (*share, keys.values[0], keys.outputs[:, 3]):
                uniform = words.astype(float) / 2.0**64
                assert stats.kstest(uniform, "uniform").pvalue > 1e-7


def test_an_altered_key_yields_no_multiple_of_the_payload():
    # so a holder that evaluates at another point, or was given another key, hits no label
    rng = np.random.default_rng(6)
    count = 3000
    roots, payloads, keys = dealt(rng, 8, np.full(count, 200), np.zeros(count))
    altered = keys._replace(corrections=keys.corrections ^ np.uint64(1 << 20))
    points = np.full((1, count), 100, dtype=np.uint64)
    first = evaluate_payloads(HASHED, roots[0], keys, points, second=False, bits=8)
    second = evaluate_payloads(HASHED, roots[1], altered, points, second=True, bits=8)
    found = (first + second)[0]
    multiples = payloads[:, None] * np.arange(16, dtype=np.uint64)
    assert not (found[:, None] == multiples).any()
