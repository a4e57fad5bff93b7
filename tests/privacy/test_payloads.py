"""Comparison functions with payloads: the definition on small domains, secrecy of a key, laws."""

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
    key_words,
)

HASHED = BlockHash(bytes(range(16)))


def dealt(rng, bits, alphas, turned, payloads=None):
    """Roots, payloads and keys; the bits are one number, or one of every comparison."""
    count = len(alphas)
    roots = rng.integers(0, 2**64, (2, count, 2), dtype=np.uint64)
    roots[..., 0] &= ~FLAGS
    if payloads is None:
        payloads = rng.integers(0, 2**64, count, dtype=np.uint64)
    alphas, turned = np.array(alphas, np.uint64), np.array(turned, np.uint64)
    each = np.broadcast_to(bits, count)
    return roots, payloads, deal_payloads(HASHED, each, alphas, roots, payloads, turned)


def both(roots, keys, points, bits):
    each = np.broadcast_to(bits, points.shape[1])
    return [evaluate_payloads(HASHED, each, roots[h], keys, points, second=bool(h)) for h in (0, 1)]


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


def test_comparisons_of_all_widths_go_down_together():
    rng = np.random.default_rng(3)
    bits = rng.permutation(np.repeat(np.arange(2, 64), 160))  # several chunks
    ends = np.uint64(2**64 - 1) >> (64 - bits).astype(np.uint64)
    alphas = rng.integers(0, 2**64, bits.size, dtype=np.uint64) & ends
    turned = rng.integers(0, 2, bits.size)
    roots, payloads, keys = dealt(rng, bits, alphas, turned)
    assert keys.size == key_words(bits) == (3 * (bits - 2) + 4).sum()
    drawn = rng.integers(0, 2**64, bits.size, dtype=np.uint64) & ends
    points = np.stack([alphas, np.where(alphas > 0, alphas - np.uint64(1), 0), drawn])
    shares = both(roots, keys, points, bits)
    wanted = np.where((points < alphas) ^ turned.astype(bool), payloads, 0)
    assert (sum(shares) == wanted).all()
    # those of one width are dealt and evaluated as if they were alone
    some = bits == 40
    item = roots[:, some], payloads[some], turned[some].view(np.uint64)
    alone = deal_payloads(HASHED, bits[some], alphas[some], *item)
    again = both(roots[:, some], alone, points[:, some], bits[some])
    assert all((one == other[:, some]).all() for one, other in zip(again, shares, strict=True))


def test_no_comparison_has_no_keys():
    none = np.zeros(0, dtype=np.int64)
    roots, _, keys = dealt(np.random.default_rng(0), none, [], [])
    assert keys.size == 0
    assert both(roots, keys, np.zeros((2, 0), dtype=np.uint64), none)[0].shape == (2, 0)


def test_what_one_key_yields_is_uniform_wherever_alpha_lies():
    rng = np.random.default_rng(5)
    count = 20_000
    for alpha, turned, payload in ((0, 0, 1), (37, 1, 1), (63, 0, 2**63 + 1)):
        payloads = np.full(count, payload, dtype=np.uint64)
        roots, _, keys = dealt(rng, 6, np.full(count, alpha), np.full(count, turned), payloads)
        points = np.full((2, count), alpha, dtype=np.uint64)
        points[1] = (alpha + 1) % 64
        for share in both(roots, keys, points, 6):
            yielded, outputs = keys[2 * count : 3 * count], keys[-count:]
            for words in (*share, yielded, outputs):
                uniform = words.astype(float) / 2.0**64
                assert stats.kstest(uniform, "uniform").pvalue > 1e-7


def test_an_altered_key_yields_no_multiple_of_the_payload():
    # so a holder that evaluates at another point, or was given another key, hits no label
    rng = np.random.default_rng(6)
    count = 3000
    roots, payloads, keys = dealt(rng, 8, np.full(count, 200), np.zeros(count))
    altered = keys.copy()
    altered[: 6 * 3 * count].reshape(6, 3, count)[:, :2] ^= np.uint64(1 << 20)
    points = np.full((1, count), 100, dtype=np.uint64)
    found = (both(roots, keys, points, 8)[0] + both(roots, altered, points, 8)[1])[0]
    multiples = payloads[:, None] * np.arange(16, dtype=np.uint64)
    assert not (found[:, None] == multiples).any()
