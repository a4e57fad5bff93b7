"""Comparisons of scores: the bits are those of exact sums, and what is malformed is refused."""

from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest
from driving import plain_verdicts
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.scores.likelihoods import MOST_OF_A_SET, LogLikelihoods, ScoreComparisons

GRID_BITS = 6


def sets_of(n_variables):
    """All single variables and pairs."""
    blocks = [np.array(list(combinations(range(n_variables), size))) for size in (1, 2)]
    counts, members = pack_blocks(blocks)
    return LogLikelihoods(n_variables=n_variables, counts=counts, members=members)


def comparisons(terms, constants, *, n_variables=4, largest=1 << 20):
    return ScoreComparisons(
        sets_of(n_variables),
        grid_bits=GRID_BITS,
        largest=largest,
        terms=pack_integers(np.array(terms, dtype=np.int64).reshape(-1, 3)),
        constants=pack_integers(np.array(constants, dtype=np.int64)),
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12), st.integers(1, 30), st.integers(0, 2**32))
def test_a_bit_says_whether_the_exact_sum_is_above_0(n_sites, count, seed):
    rng = np.random.default_rng(seed)
    n_sets = sum(sets_of(4).counts)
    terms = []
    for number in range(count):
        places = np.sort(rng.choice(n_sets, rng.integers(1, n_sets), replace=False))
        sizes = rng.integers(1, MOST_OF_A_SET, len(places)) * rng.choice([-1, 1], len(places))
        terms += [(number, place, size) for place, size in zip(places, sizes, strict=True)]
    constants = rng.integers(-5, 5, count)
    # whole numbers of the grid, so that sums of 0 occur
    answers = rng.integers(-3, 3, (n_sites, n_sets)) / 2.0**GRID_BITS
    question = comparisons(terms, constants)
    bits = plain_verdicts(question, np.array([question.words(own) for own in answers]))
    sums = [sum(Fraction(own[place]) for own in answers) for place in range(n_sets)]
    for number, constant in enumerate(constants.tolist()):
        exact = sum(size * sums[place] for at, place, size in terms if at == number)
        assert bits[number] == (exact * 2**GRID_BITS + constant > 0)


def test_a_likelihood_beyond_the_largest_is_cut_to_it():
    question = comparisons([(0, 0, 1)], [0], largest=100)
    assert (
        question.words(np.array([1e9, -1e9, 1.0] + 7 * [0.0])).tolist() == [100, -100, 64] + [0] * 7
    )


@pytest.mark.parametrize(
    ("terms", "constants"),
    [
        ([(0, 10, 1)], [0]),  # there are ten sets
        ([(0, -1, 1)], [0]),
        ([(1, 0, 1)], [0]),
        ([(-1, 0, 1)], [0]),
        ([(0, 0, MOST_OF_A_SET + 1)], [0]),
        ([(0, 0, 0)], [0]),
        ([(0, 0, 1)], []),
    ],
)
def test_what_is_no_comparison_of_these_sets_is_refused(terms, constants):
    with pytest.raises(ValueError, match="comparison|term|coefficients|question"):
        comparisons(terms, constants)


@pytest.mark.parametrize("changes", [{"grid_bits": 35}, {"largest": 0}, {"terms": b"12345678"}])
def test_a_grid_or_packing_that_is_none_is_refused(changes):
    fine = comparisons([(0, 0, 1)], [0])
    fields = {name: getattr(fine, name) for name in fine.__struct_fields__} | changes
    with pytest.raises((ValueError, msgspec.ValidationError)):
        ScoreComparisons(**fields)
