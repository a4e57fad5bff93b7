"""Bits are right at, around and far from thresholds, and at both ends of every domain."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpc_cohort import Cohort, Comparison, holds, score_tests, spelled_out, split

GRID = 16
COMPARED = 25_000
"""Comparisons of every kind of the slow test: eight kinds."""


def scores_near(rng, count, largest, room):
    """Scores and variances with T in -3..3 for half, and both ends of the domain among the rest."""
    constant = 6 * GRID**2
    U = rng.integers(-largest, largest, count, endpoint=True)
    some = rng.random(count) < 0.5
    near = min(400, largest)
    U[some] = rng.integers(-near, near, int(some.sum()), endpoint=True)
    U[: count // 20], U[count // 20 : count // 10] = largest, -largest
    U[count // 10 : count // 8] = 0
    W = np.clip(U**2 - constant - rng.integers(-3, 4, count), 0, room)
    far = rng.random(count) < 0.25
    W[far] = rng.integers(0, room, int(far.sum()), endpoint=True)
    W[: count // 40], W[count // 30 : count // 20] = 0, room
    return np.concatenate([U, W]), constant


def compared(rng, cohort, number, *, count, rows, sizes):
    """One batch over random splits: how many of its bits are wrong, and how many hold."""
    largest = rows * GRID // 4
    room = largest**2
    sums, constant = scores_near(rng, count, largest, room)
    predicates = score_tests(sizes, scores=largest, variances=room, constant=constant)
    vectors = split(rng, predicates, sums, cohort.n_sites)
    found = cohort.run(cohort.batch(predicates, number=number), vectors)
    wanted = holds(predicates, sums)
    return int((found != wanted).sum()), int(wanted.sum())


@pytest.mark.parametrize("n_sites", [2, 3, 4, 10, 100])
def test_bits_for_any_number_of_sites(n_sites):
    rng = np.random.default_rng(n_sites)
    cohort = Cohort(n_sites)
    for number, sizes in enumerate(([1] * 300, [1, 2, 3, 4, 5] * 20), start=1):
        wrong, held = compared(rng, cohort, number, count=300, rows=5000, sizes=sizes)
        assert wrong == 0
        assert 0 < held < len(sizes)


@pytest.mark.parametrize("rows", [40, 5000, 50_000, 2**20, 2**28])
def test_thousands_at_the_threshold_of_every_width(rows):
    rng = np.random.default_rng(rows)
    wrong, held = compared(rng, Cohort(4), 1, count=4000, rows=rows, sizes=[1] * 4000)
    assert wrong == 0
    assert 500 < held < 3500


@pytest.mark.slow
@pytest.mark.parametrize("rows", [40, 5000, 50_000, 2**20])
@pytest.mark.parametrize("largest", [1, 12])
def test_two_hundred_thousand_comparisons_are_right(rows, largest):
    rng = np.random.default_rng((rows, largest))
    cohort, done, held, number = Cohort(4), 0, 0, 0
    while done < COMPARED:
        number += 1
        sizes = rng.integers(1, largest, 2000, endpoint=True)
        count = int(sizes.sum())
        wrong, some = compared(rng, cohort, number, count=count, rows=rows, sizes=sizes)
        assert wrong == 0
        done, held = done + count, held + some
    assert held > 0


def test_every_value_of_a_small_ring():
    # all sums that can be, and one test each: the whole ring but its outer half
    lowest, highest = -7, 8
    values = np.arange(lowest, highest + 1)
    tests = [
        [Comparison(quadratic=((j, j, 1),), linear=((j, 2),), constant=-constant)]
        for j in range(values.size)
        for constant in (-1, 0, 8, 15, 35)
    ]
    predicates = spelled_out([lowest] * values.size, [highest] * values.size, tests)
    rng = np.random.default_rng(1)
    cohort = Cohort(4)
    found = cohort.run(cohort.batch(predicates), split(rng, predicates, values, 4))
    wanted = [x * x + 2 * x - c > 0 for x in values.tolist() for c in (-1, 0, 8, 15, 35)]
    assert found.tolist() == wanted


def test_thresholds_of_one_sum_on_one_sharing():
    # p steps: one U and one V, five levels, one bit each
    levels = (663, 1083, 1951, 4182, 8700)  # z^2, a hundredth each
    tests = [
        [Comparison(quadratic=((0, 0, 100),), linear=((1, -z2),), constant=-600)] for z2 in levels
    ]
    predicates = spelled_out([-5000, 0], [5000, 250_000], tests)
    rng = np.random.default_rng(2)
    cohort = Cohort(4)
    for number, (score, variance) in enumerate(((500, 9000), (-4000, 20_000), (10, 9), (900, 1))):
        sums = np.array([score, variance])
        batch = cohort.batch(predicates, number=number)
        assert batch.predicates.n_words == 2
        found = cohort.run(batch, split(rng, predicates, sums, 4))
        assert found.tolist() == [100 * score**2 > z2 * variance + 600 for z2 in levels]


def test_masked_forms_of_one_sum_say_nothing_together():
    # each threshold has another mask: differences of the forms are uniform, not public
    tests = [[Comparison(linear=((0, 1),), constant=-item)] for item in (10, 20)]
    predicates = spelled_out([-100], [100], tests)
    rng, differences = np.random.default_rng(3), []
    cohort = Cohort(4)
    for number in range(200):
        seen = {}

        def hook(step, party, message, seen=seen):
            if step == "square":
                seen[party] = message
            return message

        batch = cohort.batch(predicates, number=number)
        cohort.run(batch, split(rng, predicates, np.array([7]), 4), hook)
        first, second = (cohort.seats[item]._holding._forms.tolist() for item in (2, 3))
        differences.append((first[0] + second[0] - first[1] - second[1]) % 512)
    assert len(set(differences)) > 140  # of 512 values, 200 draws: about 165


def test_trace_ranking_and_count_are_forms():
    # a weighted trace, a difference of two strengths, and (sum of scores)^2 against their number
    trace = Comparison(
        quadratic=((0, 0, 5), (1, 1, 3), (2, 2, 7)),
        linear=((3, -5), (4, -3), (5, -7)),
        constant=-40,
    )
    ranking = Comparison(linear=((3, 1), (4, -1)))
    turning = Comparison(quadratic=((0, 0, 10),), linear=((6, -38),))
    correlated = Comparison(quadratic=((0, 1, 2), (0, 2, -1)), constant=3)
    predicates = spelled_out(
        [-60] * 3 + [0] * 4,
        [60] * 3 + [900] * 3 + [10],
        [[trace, ranking], [turning], [correlated], [ranking]],
    )
    rng = np.random.default_rng(4)
    cohort = Cohort(10)
    assert len(set(cohort.batch(predicates).widths.tolist())) > 2
    for number in range(20):
        sums = rng.integers(predicates.lowest, predicates.highest, endpoint=True)
        batch = cohort.batch(predicates, number=number)
        found = cohort.run(batch, split(rng, predicates, sums, 10))
        assert (found == holds(predicates, sums)).all()


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_however_the_sums_are_split_the_bits_are_the_same(seed):
    rng = np.random.default_rng(seed)
    predicates = score_tests([2, 1, 4], scores=300, variances=90_000, constant=96)
    sums = rng.integers(predicates.lowest, predicates.highest, endpoint=True)
    wanted = holds(predicates, sums)
    for n_sites in (2, 3, 5):
        cohort = Cohort(n_sites)
        found = cohort.run(cohort.batch(predicates), split(rng, predicates, sums, n_sites))
        assert (found == wanted).all()


def test_some_sites_of_a_cohort_take_part():
    rng = np.random.default_rng(5)
    predicates = score_tests([2, 2], scores=100, variances=10_000)
    sums = rng.integers(predicates.lowest, predicates.highest, endpoint=True)
    cohort = Cohort(8)
    batch = cohort.batch(predicates, sites=(0, 1, 2, 3, 6))
    vectors = np.zeros((8, 8), dtype=np.int64)
    vectors[[0, 1, 2, 3, 6]] = split(rng, predicates, sums, 5)
    assert (cohort.run(batch, vectors) == holds(predicates, sums)).all()
