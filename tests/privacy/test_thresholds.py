"""Is a sum above a threshold? Against fractions, and on sums as the protections carry them."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import ParameterError, SpentKeyError
from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.comparison.batch import COORDINATOR, Comparisons
from cipherdag.privacy.comparison.keys import ComparisonKeys, deal, draw_blinds
from cipherdag.privacy.comparison.thresholds import SumRange
from cipherdag.privacy.fixedpoint import encode
from cipherdag.privacy.residues import WORD_MODULI, add
from cipherdag.privacy.tags import head_words

DIGEST = hashlib.sha256(b"question").digest()


def verdicts(sums, thresholds, within, modulus, seed=0):
    """Blind whole sums, deal, and open what both holders say."""
    batch = Comparisons(DIGEST, 1, 0, (COORDINATOR, 1), modulus, len(sums))
    random = np.random.default_rng(seed).bytes
    blinds = draw_blinds(batch, random)
    blinded = [(int(t) + int(r)) % modulus for t, r in zip(sums, blinds, strict=True)]
    return opened(batch, deal(batch, blinds, random), blinded, thresholds, within)


def opened(batch, keys, blinded, thresholds, within):
    first, second = (
        within.above(
            ComparisonKeys(own, keys.common, batch, holder),
            np.array(blinded, dtype=np.uint64),
            np.array(thresholds, dtype=np.float64),
        )
        for holder, own in enumerate(keys.secrets)
    )
    return first ^ second


@pytest.mark.parametrize(("least", "most"), [(0, 5), (-5, 5), (-5, 0), (-7, -3), (3, 7), (0, 0)])
@pytest.mark.parametrize("spare", [1, 2, 9])
def test_every_sum_and_every_threshold_of_a_small_range(least, most, spare):
    halves = np.arange(2 * least - 5, 2 * most + 6) / 2
    every = [(t, h) for t in range(least, most + 1) for h in [*halves, -np.inf, np.inf]]
    sums, thresholds = zip(*every, strict=True)
    for seed in range(5):
        found = verdicts(
            sums, thresholds, SumRange(least, most), most - least + 1 + spare, seed
        )  # fmt: skip
        assert found.tolist() == [t > h for t, h in every]


@st.composite
def asked(draw):
    """A range on a grid, a modulus that it fits, sums, and thresholds close to them or anywhere."""
    bits = draw(st.integers(0, 40))
    modulus = draw(st.sampled_from([2**24 - 3, 68719403009, 2**56 - 5, 2**64]))
    room = min(modulus - 2, 2**60)
    least = -draw(st.integers(0, room // 2))
    most = draw(st.integers(least, least + room - 1))
    value = st.integers(least, most)
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        total = draw(value)
        # floats that say exactly what is meant, some of them between two steps
        near = float(np.ldexp(float(total + draw(st.integers(-1, 1))), -bits))
        near = draw(
            st.sampled_from([near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)])
        )
        rows.append((total, draw(st.just(near) | st.floats(allow_nan=False))))
    return bits, modulus, least, most, rows


@given(asked(), st.integers(0, 2**32))
@settings(max_examples=250, deadline=None, derandomize=True)
def test_a_sum_is_above_a_threshold_where_fractions_say_so(case, seed):
    bits, modulus, least, most, rows = case
    sums, thresholds = zip(*rows, strict=True)
    found = verdicts(sums, thresholds, SumRange(least, most, bits), modulus, seed)
    right = [
        Fraction(t, 2**bits) > Fraction(h) if np.isfinite(h) else h < 0 for t, h in rows
    ]  # fmt: skip
    assert found.tolist() == right


def test_a_dealer_blinds_the_words_that_masking_adds_up():
    # sums of signed answers on a grid, in the residues of the first plane, heads and all
    n_sites, length, bits = 5, 300, 20
    segment = Segment(length=length, bound=1000.0, resolution_bits=bits, signed=True)
    declared = Declaration(DIGEST, n_sites, (segment,))
    rng = np.random.default_rng(4)
    answers = np.round(rng.uniform(-1000, 1000, (n_sites, length)) * 2**bits) / 2**bits
    modulus = WORD_MODULI[0]
    batch = Comparisons(DIGEST, 1, 2, (COORDINATOR, 1), modulus, length)
    blinds = draw_blinds(batch)
    total = np.zeros(length, dtype=np.uint64)
    for site, answer in enumerate(answers):
        plane = encode(answer, declared, WORD_MODULI)[: length + head_words(modulus)]
        words = plane[head_words(modulus) :].copy()
        if site == batch.dealer:
            add(words, blinds, modulus)
        add(total, words, modulus)
    reach = n_sites * 1000 * 2**bits
    exact = answers.sum(axis=0)
    thresholds = np.where(np.arange(length) % 3 == 0, exact, rng.uniform(-3000, 3000, length))
    keys = deal(batch, blinds)
    found = opened(batch, keys, total, thresholds, SumRange(-reach, reach, bits))
    assert (found == (exact > thresholds)).all()
    assert found.any()
    assert not found[::3].any()


def test_a_threshold_is_part_of_what_a_key_is_used_for():
    batch = Comparisons(DIGEST, 1, 0, (COORDINATOR, 1), 2**24 - 3, 1)
    dealt = deal(batch, np.array([77], dtype=np.uint64))
    keys = ComparisonKeys(dealt.secrets[0], dealt.common, batch, 0)
    within, blinded = SumRange(0, 10), np.array([80], dtype=np.uint64)
    within.above(keys, blinded, np.array([2.0]))
    within.above(keys, blinded, np.array([2.5]))  # no sum lies between them
    with pytest.raises(SpentKeyError):
        within.above(keys, blinded, np.array([3.0]))


@pytest.mark.parametrize(
    ("within", "thresholds"),
    [(SumRange(0, 10), [np.nan]), (SumRange(0, 2**24 - 4), [1.0]), (SumRange(-9, 2**24), [1.0])],
)
def test_thresholds_and_ranges_that_cannot_be_are_refused(within, thresholds):
    with pytest.raises(ParameterError):
        verdicts([1], thresholds, within, 2**24 - 3)


@pytest.mark.parametrize("wrong", [(1, 0, 0), (0, 2**62, 0), (-(2**62), 0, 0), (0, 1, -1)])
def test_a_range_without_sums_is_refused(wrong):
    with pytest.raises(ParameterError):
        SumRange(*wrong)
