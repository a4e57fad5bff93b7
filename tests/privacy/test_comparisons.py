"""Comparisons of blinded sums: the definition on small domains, laws, and the plain reference."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import plain_comparisons as plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.privacy.comparison.batch import COORDINATOR, Comparisons
from cipherdag.privacy.comparison.blockhash import BlockHash, from_bytes
from cipherdag.privacy.comparison.function import FLAGS, deal_tree, evaluate_tree
from cipherdag.privacy.comparison.keys import ComparisonKeys, deal, draw_blinds
from cipherdag.privacy.comparison.verdicts import opened, pack

SESSION = hashlib.sha256(b"session").digest()


def batch_of(modulus, count, number=4):
    return Comparisons(SESSION, number, 3, (COORDINATOR, 1), modulus, count)


def words(values):
    return np.array(values, dtype=np.uint64)


def seeded(seed):
    return np.random.default_rng(seed).bytes


def blinded_by(sums, blinds, modulus):
    """The sums plus the blinds, in Python integers."""
    return words([(int(t) + int(r)) % modulus for t, r in zip(sums, blinds, strict=True)])


def dealt(batch, blinds, *random):
    """Both holders' keys."""
    keys = deal(batch, blinds, *random)
    return [ComparisonKeys(own, keys.common, batch, k) for k, own in enumerate(keys.secrets)]


def verdicts(keys, blinded, low, high):
    """What both holders' shares add up to."""
    first, second = (own.contains(blinded, low, high) for own in keys)
    return opened(pack(first), pack(second), blinded.size)


# ------------------------------------------------------------------ the definition, exhaustively


def tree(bits, alphas, seed):
    """The hash, both roots, and what both keys have in common."""
    hashed = BlockHash(bytes(range(16)))
    roots = from_bytes(seeded(seed)(32 * alphas.size)).reshape(2, alphas.size, 2).copy()
    roots[..., 0] &= ~FLAGS
    return hashed, roots, deal_tree(hashed, alphas, bits, roots)


@pytest.mark.parametrize("bits", range(1, 12))
def test_the_function_is_one_below_its_bound_and_zero_from_it_on(bits):
    everything = np.arange(1 << bits, dtype=np.uint64)
    # beyond 9 bits every point is tried for some bounds, the ends of blocks among them
    step = 1 if bits < 10 else 37
    alphas = np.unique(np.concatenate([everything[::step], everything[-1:], everything[127::128]]))
    hashed, roots, (corrections, outputs) = tree(bits, alphas, bits)
    points = np.repeat(everything[:, None], alphas.size, axis=1)
    shares = [
        evaluate_tree(
            hashed, roots[k], corrections, outputs, points, second=k == 1, bits=bits
        )
        for k in (0, 1)
    ]  # fmt: skip
    assert ((shares[0] ^ shares[1]).astype(bool) == (points < alphas)).all()
    assert set(np.unique(shares)) <= {0, 1}


@pytest.mark.parametrize("modulus", [2, 3, 4, 5, 7, 8, 11, 16, 29, 32])
def test_every_sum_every_blind_and_every_interval_of_a_small_domain(modulus):
    values = range(modulus)
    every = [
        (t, r, p, q) for t in values for r in values for p in values for q in range(p, modulus)
    ]
    sums, blinds, low, high = (words(column) for column in zip(*every, strict=True))
    keys = dealt(batch_of(modulus, len(every)), blinds, seeded(modulus))
    found = verdicts(keys, (sums + blinds) % np.uint64(modulus), low, high)
    assert (found == ((low <= sums) & (sums <= high))).all()


@pytest.mark.parametrize("modulus", [64, 61])
def test_six_bits_all_blinds_all_sums_all_intervals(modulus):
    low, high = (ends.astype(np.uint64) for ends in np.triu_indices(modulus))
    for total in range(modulus):
        sums = np.full(low.size * modulus, total, dtype=np.uint64)
        blinds = np.repeat(np.arange(modulus, dtype=np.uint64), low.size)
        p, q = np.tile(low, modulus), np.tile(high, modulus)
        keys = dealt(batch_of(modulus, sums.size), blinds, seeded(total))
        found = verdicts(keys, (sums + blinds) % np.uint64(modulus), p, q)
        assert (found == ((p <= sums) & (sums <= q))).all()


@pytest.mark.parametrize("modulus", [256, 257, 509, 512])
def test_beyond_one_block_all_blinds_and_all_sums(modulus):
    sums, blinds = (
        grid.ravel().astype(np.uint64) for grid in np.indices((modulus, modulus), dtype=np.int64)
    )
    rng = np.random.default_rng(modulus)
    low, high = np.sort(rng.integers(0, modulus, (2, sums.size), dtype=np.uint64), axis=0)
    keys = dealt(batch_of(modulus, sums.size), blinds, seeded(modulus))
    found = verdicts(keys, (sums + blinds) % np.uint64(modulus), low, high)
    assert (found == ((low <= sums) & (sums <= high))).all()


# ------------------------------------------------------------------ laws


@st.composite
def compared(draw):
    """A modulus, and sums, blinds and intervals that lie at, around and far from each other."""
    modulus = draw(
        st.integers(1, 64).map(lambda bits: 1 << bits)
        | st.sampled_from([2**56 - 5, 2**56 - 27, 68719403009, 2**63 + 29, 2**64 - 59])
        | st.integers(2, 2**64)
    )
    near = st.integers(-2, 2)
    anchors = [0, modulus - 1, modulus // 2, 127 % modulus, draw(st.integers(0, modulus - 1))]
    value = st.builds(lambda at, off: (at + off) % modulus, st.sampled_from(anchors), near)
    rows = draw(st.lists(st.tuples(value, value, value, value), min_size=1, max_size=12))
    return modulus, [(t, r, min(p, q), max(p, q)) for t, r, p, q in rows]


@given(compared(), st.integers(0, 2**32))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_the_shares_add_up_to_the_verdict(case, seed):
    modulus, rows = case
    sums, blinds, low, high = zip(*rows, strict=True)
    keys = dealt(batch_of(modulus, len(rows)), words(blinds), seeded(seed))
    found = verdicts(keys, blinded_by(sums, blinds, modulus), words(low), words(high))
    assert found.tolist() == [p <= t <= q for t, _, p, q in rows]


@given(compared(), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_an_interval_and_what_is_left_of_the_domain_complement_each_other(case, seed):
    modulus, rows = case
    sums, blinds, low, _ = zip(*rows, strict=True)
    whole = (words([0] * len(rows)), words([modulus - 1] * len(rows)))
    blinded = blinded_by(sums, blinds, modulus)
    split = words([max(p, 1) for p in low])
    ask = [(split, whole[1]), (whole[0], split - np.uint64(1)), whole]
    above, below, anywhere = (
        verdicts(dealt(batch_of(modulus, len(rows)), words(blinds), seeded(seed)), blinded, *ends)
        for ends in ask
    )
    assert (above ^ below).all()
    assert anywhere.all()


@given(compared(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_batch_says_what_its_comparisons_say_one_by_one(case, random):
    modulus, rows = case
    random.shuffle(rows)
    sums, blinds, low, high = (words(column) for column in zip(*rows, strict=True))
    blinded = blinded_by(sums, blinds, modulus)
    together = verdicts(
        dealt(batch_of(modulus, len(rows)), blinds, seeded(1)), blinded, low, high
    )  # fmt: skip
    for k in range(len(rows)):
        one = slice(k, k + 1)
        keys = dealt(batch_of(modulus, 1), blinds[one], seeded(2))
        assert verdicts(keys, blinded[one], low[one], high[one]) == together[one]


# ------------------------------------------------------------------ at random, in numbers


@pytest.mark.parametrize("modulus", [2**24 - 3, 2**40, 2**56 - 5, 2**64])
def test_many_random_comparisons_at_around_and_far_from_the_threshold(modulus):
    count = 12_000
    rng = np.random.default_rng(modulus % 2**32)
    largest = np.uint64(modulus - 1)
    low = rng.integers(0, largest, count, dtype=np.uint64, endpoint=True)
    high = rng.integers(low, largest, dtype=np.uint64, endpoint=True)
    low[::5], high[::5] = 0, high[::5]
    high[1::3] = largest
    sums = rng.integers(0, largest, count, dtype=np.uint64, endpoint=True)
    for place, ends in ((2, low), (3, high)):
        at = slice(place, None, 7)
        off = rng.integers(-2, 3, ends[at].size)
        sums[at] = words([(int(v) + int(o)) % modulus for v, o in zip(ends[at], off, strict=True)])
    sums[5::7], sums[6::14] = largest, 0
    batch = batch_of(modulus, count)
    blinds = draw_blinds(batch)
    keys = dealt(batch, blinds)
    found = verdicts(keys, blinded_by(sums, blinds, modulus), low, high)
    assert (found == ((low <= sums) & (sums <= high))).all()


# ------------------------------------------------------------------ the plain reference


def golden():
    cases = json.loads(plain.GOLDEN.read_text("utf-8"))
    numbers = ("blinds", "blinded", "low", "high")
    for case in cases:
        case["modulus"] = int(case["modulus"])
        for name in numbers:
            case[name] = [int(value) for value in case[name]]
    return cases


def test_the_golden_file_is_what_the_plain_reference_says():
    assert [str(case["modulus"]) for case in golden()] == [str(m) for m in plain.MODULI]
    assert json.loads(plain.GOLDEN.read_text("utf-8")) == [plain.case(m) for m in plain.MODULI]


@pytest.mark.parametrize("case", golden(), ids=lambda case: str(case["modulus"]))
def test_keys_and_shares_are_those_of_the_golden_file(case):
    batch = Comparisons(
        bytes.fromhex(case["session"]), case["number"], case["dealer"], tuple(case["holders"]),
        case["modulus"], case["count"],
    )  # fmt: skip
    seeds = iter(bytes.fromhex(seed) for seed in case["seeds"])
    keys = deal(batch, words(case["blinds"]), lambda _: next(seeds))
    assert keys.common.hex() == case["common"]
    assert [secret.hex() for secret in keys.secrets] == case["secrets"]
    ends = [words(case[name]) for name in ("low", "high")]
    shares = [
        ComparisonKeys(own, keys.common, batch, k).contains(words(case["blinded"]), *ends)
        for k, own in enumerate(keys.secrets)
    ]
    assert (shares[0] ^ shares[1]).tolist() == [bool(bit) for bit in case["inside"]]
    x, p, q = (words(case[name]) for name in ("blinded", "low", "high"))
    last = q == np.uint64(batch.modulus - 1)
    # the paper's second holder adds what is public, ours the first; the paper's z is [q = N - 1]
    public = (x > p) ^ (x > np.where(last, np.uint64(0), q + np.uint64(1)))
    first, second = (np.array(own, dtype=bool) for own in case["shares_without_z"])
    assert (shares[0] == first ^ public ^ last).all()
    assert (shares[1] == second ^ public).all()


@given(compared(), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_both_say_the_same_of_anything(case, seed):
    modulus, rows = case
    sums, blinds, low, high = zip(*rows, strict=True)
    batch = batch_of(modulus, len(rows), number=seed)
    seeds = [plain.stream("seed", seed, holder)(32) for holder in (0, 1)]
    spelled = {
        "session": SESSION.hex(), "number": seed, "dealer": 3, "holders": [COORDINATOR, 1],
        "modulus": modulus, "count": len(rows),
    }  # fmt: skip
    left = iter(seeds)
    keys = deal(batch, words(blinds), lambda _: next(left))
    assert (keys.common, list(keys.secrets)) == plain.dealt(spelled, blinds, seeds)
    blinded = [(t + r) % modulus for t, r in zip(sums, blinds, strict=True)]
    shares = [
        plain.contains(spelled, plain.read(spelled, keys.common, own), k, blinded, low, high)
        for k, own in enumerate(keys.secrets)
    ]
    corrected = [
        a ^ b ^ plain.correction(p, q, r, modulus)
        for a, b, p, q, r in zip(*shares, low, high, blinds, strict=True)
    ]
    assert corrected == [p <= t <= q for t, _, p, q in rows]


@pytest.mark.parametrize("modulus", range(2, 20))
def test_the_paper_s_correction_depends_on_the_interval_s_end_alone(modulus):
    for r in range(modulus):
        for p in range(modulus):
            for q in range(p, modulus):
                assert plain.correction(p, q, r, modulus) == (q == modulus - 1)


# ------------------------------------------------------------------ what one holder sees


@pytest.mark.parametrize("modulus", [2**6, 509, 2**40])
def test_a_single_share_is_unbiased_whatever_the_verdict_is(modulus):
    count = 40_000
    batch = batch_of(modulus, count)
    low, high = words([modulus // 2] * count), words([modulus - 1] * count)
    sums = words([modulus // 3, 2 * modulus // 3] * (count // 2))
    blinds = draw_blinds(batch, seeded(11))
    keys = dealt(batch, blinds, seeded(12))
    blinded = blinded_by(sums, blinds, modulus)
    shares = [own.contains(blinded, low, high) for own in keys]
    inside = sums >= low
    assert ((shares[0] ^ shares[1]) == inside).all()
    for share in shares:
        table = [[np.sum(share[side] == bit) for bit in (0, 1)] for side in (inside, ~inside)]
        assert stats.chi2_contingency(table).pvalue > 1e-4
        assert stats.binomtest(int(share.sum()), count).pvalue > 1e-4
        # nor does it tell where the blinded sum lies
        upper = blinded > np.uint64(modulus // 2)
        table = [[np.sum(share[side] == bit) for bit in (0, 1)] for side in (upper, ~upper)]
        assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize("modulus", [5, 509, 2**24 - 3])
def test_what_is_sent_in_the_clear_looks_alike_for_any_blind(modulus):
    # of every bit, how often it is set: where it varies at all, half of the time
    count = 20_000
    batch = batch_of(modulus, count)
    bits = []
    for blind in (0, 1, modulus // 2):
        keys = deal(batch, words([blind] * count), seeded(blind))
        blocks = np.frombuffer(keys.common, dtype=np.uint8).reshape(-1, count, 16)
        bits.append(np.unpackbits(blocks, axis=2).sum(axis=1, dtype=np.int64).ravel())
    assert len({(own == 0).tobytes() for own in bits}) == 1
    for own in bits:
        scores = (own[own > 0] - count / 2) / np.sqrt(count / 4)
        assert stats.chi2.sf(np.sum(scores**2), scores.size) > 1e-4
        assert np.abs(scores).max() < stats.norm.isf(1e-4 / scores.size)


def test_blinds_are_uniform_and_blinded_sums_say_nothing():
    modulus, count = 509, 200_000
    blinds = draw_blinds(batch_of(modulus, count), seeded(3))
    for total in (0, 400):
        seen = np.bincount((blinds.astype(int) + total) % modulus, minlength=modulus)
        assert stats.chisquare(seen).pvalue > 1e-4


def test_the_operating_system_s_randomness_is_the_default():
    batch = batch_of(2**40, 3)
    assert draw_blinds(batch).tolist() != draw_blinds(batch).tolist()
    one, two = (deal(batch, words([1, 2, 3])) for _ in range(2))
    assert one.common != two.common
    assert len({*one.secrets, *two.secrets}) == 4
