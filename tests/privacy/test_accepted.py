"""Verdicts on sums that lie in one of many intervals, by plain arithmetic, through every step."""

from __future__ import annotations

import hashlib
from itertools import combinations

import numpy as np
import pytest
from cohort import agreed_keys, bfv_sites, declare, masking_sites, plain_sites, seeds_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.errors import (
    AggregateRangeError,
    ComparisonKeyError,
    ForgedSumError,
    ParameterError,
    ShareError,
    SpentKeyError,
)
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.comparison.accepted import Accepted
from cipherdag.privacy.comparison.batch import Comparisons
from cipherdag.privacy.comparison.dealing import DealingKeys
from cipherdag.privacy.comparison.keys import ComparisonKeys, deal, draw_blinds
from cipherdag.privacy.comparison.verdicts import pack
from cipherdag.privacy.fixedpoint import MAX_COMPARED
from cipherdag.privacy.masking import MASKING
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.unprotected import UNPROTECTED

DIGEST = hashlib.sha256(b"question").digest()
MODULUS = 2**24 - 3


def accepted(intervals, most, count):
    """The same intervals for every comparison."""
    low = np.array([[low] * count for low, _ in intervals], dtype=np.int64).reshape(-1, count)
    high = np.array([[high] * count for _, high in intervals], dtype=np.int64).reshape(-1, count)
    return Accepted(low, high, np.full(count, most, dtype=np.int64))


def verdicts(sums, sets, modulus=MODULUS, seed=0):
    batch = Comparisons(DIGEST, 1, 0, (1, 2), modulus, len(sums))
    random = np.random.default_rng(seed).bytes
    blinds = draw_blinds(batch, random)
    keys = deal(batch, blinds, random)
    blinded = np.array(
        [(int(t) + int(r)) % modulus for t, r in zip(sums, blinds, strict=True)], dtype=np.uint64
    )
    first, second = (
        pack(sets.shares(ComparisonKeys(own, keys.common, batch, holder), blinded))
        for holder, own in enumerate(keys.secrets)
    )
    return sets.verdicts(first, second)


@pytest.mark.parametrize("spare", [2, 3, 300])
def test_every_sum_and_every_pair_of_intervals_of_a_small_range(spare):
    most = 9
    ends = list(combinations(range(most + 2), 2))
    intervals = [(low, high - 1) for low, high in ends]
    for first in intervals:
        for second in [own for own in intervals if own[0] > first[1]] or [(5, 4)]:
            found = verdicts(
                range(most + 1), accepted([first, second], most, most + 1), most + spare
            )
            assert found.tolist() == [
                any(low <= t <= high for low, high in (first, second)) for t in range(most + 1)
            ]


@st.composite
def asked(draw):
    most = draw(st.sampled_from([0, 1, 130, 2**16, MAX_COMPARED]))
    count = draw(st.integers(1, 5))
    width = draw(st.integers(0, 6))
    cuts = [sorted(draw(st.sets(st.integers(0, most), max_size=2 * width))) for _ in range(count)]
    low = np.ones((width, count), dtype=np.int64)
    high = np.zeros((width, count), dtype=np.int64)
    for place, own in enumerate(cuts):
        for row in range(len(own) // 2):
            low[row, place], high[row, place] = own[2 * row], own[2 * row + 1]
    near = [*(cut + d for own in cuts for cut in own for d in (-1, 0, 1)), 0, most]
    sums = [draw(st.sampled_from(near)) for _ in range(count)]
    return [min(max(t, 0), most) for t in sums], Accepted(low, high, np.full(count, most))


@settings(deadline=None, max_examples=60)
@given(asked(), st.sampled_from([2**35 + 2, 68719206401, WORD_MODULI[0]]), st.integers(0, 99))
def test_a_union_of_intervals_holds_what_one_of_them_holds(case, modulus, seed):
    sums, sets = case
    expected = [
        bool(((low <= t) & (t <= high)).any())
        for t, low, high in zip(sums, sets.low.T, sets.high.T, strict=True)
    ]
    assert verdicts(sums, sets, modulus, seed).tolist() == expected


@pytest.mark.parametrize("impossible", [11, 12, MODULUS - 1, MODULUS // 2])
def test_a_sum_that_cannot_be_is_told_and_no_other(impossible):
    sets = accepted([(2, 3), (7, 10)], 10, 3)
    assert verdicts([0, 10, 5], sets).tolist() == [False, True, False]
    with pytest.raises(AggregateRangeError, match="none that the cohort can produce"):
        verdicts([0, impossible, 5], sets)


@pytest.mark.parametrize(
    ("intervals", "most"),
    [([(0, 5), (5, 6)], 9), ([(4, 6), (1, 2)], 9), ([(0, 10)], 9), ([(-1, 3)], 9)],
)
def test_intervals_that_overlap_or_lie_beyond_are_refused(intervals, most):
    with pytest.raises(ParameterError):
        accepted(intervals, most, 2)


def test_shapes_and_sums_that_do_not_fit_are_refused():
    with pytest.raises(ParameterError):
        Accepted(np.zeros((1, 2), np.int64), np.zeros((2, 2), np.int64), np.zeros(2, np.int64))
    with pytest.raises(ParameterError, match="fit the modulus"):
        verdicts([0], accepted([(0, 1)], MODULUS - 1, 1))
    sets = accepted([(0, 1)], 5, 3)
    with pytest.raises(ShareError):
        sets.verdicts(b"\x00\x00", b"\x00")


def test_a_key_serves_one_set_of_intervals():
    batch = Comparisons(DIGEST, 1, 0, (1, 2), MODULUS, 1)
    blinds = draw_blinds(batch)
    dealt = deal(batch, blinds)
    keys = ComparisonKeys(dealt.secrets[0], dealt.common, batch, 0)
    accepted([(0, 1)], 5, 1).shares(keys, blinds)
    with pytest.raises(SpentKeyError):
        accepted([(0, 2)], 5, 1).shares(keys, blinds)


# through the sums of every protection


def made(protection, n_sites):
    if protection == "bfv":
        pytest.importorskip("tenseal")
        from cipherdag.privacy.bfvcontext import BfvContext, BfvPublicContext
        from cipherdag.privacy.sums import CoordinatorAggregation

        context = BfvContext.generate()
        public = BfvPublicContext(context.public_bytes())
        return bfv_sites(context, n_sites), CoordinatorAggregation(public, masked=True)
    if protection == "none":
        return plain_sites(n_sites), UNPROTECTED.coordinator(b"")
    return masking_sites(n_sites), MASKING.coordinator(b"")


@pytest.mark.parametrize("length", [1, 9000])
@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
def test_blinded_sums_are_compared_and_never_opened(protection, length):
    n_sites, dealer, holders = 4, 2, (0, 3)
    sites, coordinator = made(protection, n_sites)
    declared = declare(n_sites, Segment(length, 3.0, verdict=True))
    rng = np.random.default_rng(1)
    answers = rng.integers(0, 4, (n_sites, length)).astype(float)
    batch = Comparisons(declared.digest, 1, dealer, holders, coordinator.modulus(declared), length)
    keys = [DealingKeys(i, own) for i, own in enumerate(agreed_keys(n_sites))]
    blinds = draw_blinds(batch)
    common, sealed = keys[dealer].deal(batch, blinds)
    shares = {
        i: own.share(answers[i], declared, blinds if i == dealer else None)
        for i, own in enumerate(sites)
    }
    seeds = seeds_of(sites, declared)
    combined = coordinator.combine(shares, declared)
    if coordinator.opened_by_site:
        combined = sites[0].open(combined, seeds, declared)
    aggregate = coordinator.open(combined, seeds, declared)
    assert aggregate.values.size == 0
    sets = accepted([(2, 4), (6, 7)], 12, length)
    packed = []
    for holder, site in enumerate(holders):
        blinded = sites[site].blinded(aggregate.content, declared)
        total = (answers.sum(axis=0).astype(np.uint64) + blinds) % np.uint64(batch.modulus)
        assert (blinded == total).all()
        own = keys[site].received(batch, common, sealed[holder])
        packed.append(pack(sets.shares(own, blinded)))
    found = sets.verdicts(*packed)
    total = answers.sum(axis=0)
    assert (found == (((total >= 2) & (total <= 4)) | ((total >= 6) & (total <= 7)))).all()

    forged = bytearray(aggregate.content)
    forged[-1 if length == 1 else 8 * 100] ^= 1
    with pytest.raises((ForgedSumError, AggregateRangeError)):
        sites[1].blinded(bytes(forged), declared)


@pytest.mark.parametrize(
    "segments",
    [
        (Segment(2, 3.0, verdict=True), Segment(1, 1.0)),
        (Segment(2, 3.0, verdict=True, signed=True),),
        (Segment(2, 3.0, 2, verdict=True),),
        (Segment(2, 2.0**34, verdict=True),),
        (Segment(2, 1.0, comparison=True, verdict=True),),
    ],
    ids=str,
)
def test_what_no_verdict_can_be_found_on_is_refused(segments):
    declared = declare(3, *segments)
    answer = np.zeros(declared.length)
    with pytest.raises(ParameterError, match="verdicts are found on"):
        masking_sites(3)[0].share(answer, declared)


def test_a_sealed_key_is_for_one_holder_one_dealer_and_one_round():
    keys = [DealingKeys(i, own) for i, own in enumerate(agreed_keys(4))]
    batch = Comparisons(DIGEST, 1, 0, (1, 2), MODULUS, 3)
    common, sealed = keys[0].deal(batch, draw_blinds(batch))
    assert keys[1].received(batch, common, sealed[0]).batch == batch
    wrong = [
        (1, batch, sealed[1]),
        (2, batch, sealed[0]),
        (1, Comparisons(DIGEST, 2, 0, (1, 2), MODULUS, 3), sealed[0]),
        (1, Comparisons(DIGEST, 1, 3, (1, 2), MODULUS, 3), sealed[0]),
        (1, Comparisons(DIGEST, 1, 0, (1, 2), MODULUS + 2, 3), sealed[0]),
        (1, Comparisons(bytes(32), 1, 0, (1, 2), MODULUS, 3), sealed[0]),
        (1, batch, b""),
        (1, batch, sealed[0][:-1]),
        (1, batch, sealed[0][:-1] + bytes([sealed[0][-1] ^ 1])),
    ]
    for site, own, content in wrong:
        with pytest.raises(ComparisonKeyError):
            keys[site].received(own, common, content)
    with pytest.raises(ComparisonKeyError):
        keys[1].received(batch, common[:-1] + bytes([common[-1] ^ 1]), sealed[0])


def test_both_holders_pad_alike_and_nobody_else_can():
    keys = [DealingKeys(i, own) for i, own in enumerate(agreed_keys(4))]
    pads = []
    for number in range(1, 40):
        batch = Comparisons(DIGEST, number, 0, (2, 1), MODULUS, 3)
        first, second = keys[2].pad(batch, 77), keys[1].pad(batch, 77)
        assert (first == second).all()
        assert first.shape == (77,)
        pads.append(first)
        for other in (0, 3):
            with pytest.raises(ValueError, match="too many"):
                keys[other].pad(batch, 77)
    flat = np.concatenate(pads)
    assert stats.binomtest(int(flat.sum()), flat.size).pvalue > 1e-8
    assert len({own.tobytes() for own in pads}) == len(pads)
