"""A site's own constants: weights are rows that are there more often, and blocks invert a whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.sites.compute.models.likelihoods import information
from cipherdag.sites.compute.models.site_intercepts import (
    full_scores,
    profile_step,
    profiled_slope,
    with_site_intercepts,
)


def drawn(seed, categories, n=60):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    response = np.append(np.arange(categories), rng.integers(0, categories, n - categories))
    coefficients = rng.normal(size=(categories - 1, 3))
    return rng, design, response.astype(float), coefficients


@given(st.integers(0, 10**6), st.sampled_from([2, 3]))
@settings(max_examples=40)
def test_a_weight_of_two_is_a_row_that_is_there_twice(seed, categories):
    rng, design, response, own = drawn(seed, categories)
    times = rng.integers(1, 4, len(design))
    twice = np.repeat(np.arange(len(design)), times)
    weighed = profile_step(design, response, own.ravel(), categories, times.astype(float))
    known = profile_step(design[twice], response[twice], own.ravel(), categories)
    assert weighed == pytest.approx(known, rel=1e-5, abs=1e-5)


@given(st.integers(0, 10**6), st.sampled_from([0, 2, 3]))
@settings(max_examples=40)
def test_at_its_own_constants_a_site_s_scores_of_them_are_0(seed, categories):
    rng, design, response, own = drawn(seed, max(categories, 2))
    weights = rng.uniform(0.9, 1.1, len(design))
    found = with_site_intercepts(design, response, own, categories, weights)
    assert (found[:, 1:] == own[:, 1:]).all()
    logits = design @ found.T
    if not categories:
        assert weights @ (response - logits[:, 0]) == pytest.approx(0.0, abs=1e-8)
        return
    chance = np.exp(np.column_stack([np.zeros(len(design)), logits]))
    chance /= chance.sum(axis=1, keepdims=True)
    seen = response[:, None] == np.arange(categories)
    assert weights @ (seen - chance) == pytest.approx(np.zeros(categories), abs=1e-5)


@pytest.mark.parametrize("category", [0.0, 1.0])
def test_a_site_of_one_category_fits_it_for_certain(category):
    _, design, _, own = drawn(1, 2)
    response = np.full(len(design), category)
    found = with_site_intercepts(design, response, own, 2, np.ones(len(design)))
    fitted = 0.5 + 0.5 * np.tanh(design @ found[0] / 2.0)
    assert fitted == pytest.approx(response, abs=1e-12)


@given(st.integers(0, 10**6), st.sampled_from([2, 3]))
@settings(max_examples=40)
def test_two_sites_blocks_are_the_inverse_of_the_whole(seed, categories):
    """Slopes in common, constants of each of two sites: solved by blocks and as one matrix."""
    outputs = categories - 1
    places = np.arange(0, 3 * outputs, 3)
    rest = np.setdiff1d(np.arange(3 * outputs), places)
    squares, slopes = [], []
    for number in (0, 1):
        rng, design, _, _ = drawn(seed + number, categories)
        chance = rng.dirichlet(np.ones(categories), len(design))
        squares.append(information(design, chance[:, 1:]).reshape(3 * outputs, -1))
        slopes.append(rng.normal(size=3 * outputs))
    size = len(rest) + 2 * outputs
    whole, right = np.zeros((size, size)), np.zeros(size)
    profile, total = np.zeros((len(rest),) * 2), np.zeros(len(rest))
    for number, (square, slope) in enumerate(zip(squares, slopes, strict=True)):
        at = np.append(np.arange(len(rest)), len(rest) + outputs * number + np.arange(outputs))
        order = np.append(rest, places)
        whole[np.ix_(at, at)] += square[np.ix_(order, order)]
        right[at] += slope[order]
        inner = square[np.ix_(places, places)]
        cross = square[np.ix_(rest, places)]
        profile += square[np.ix_(rest, rest)] - cross @ np.linalg.solve(inner, cross.T)
        total += profiled_slope(slope, square, outputs)[rest]
    known, shared = np.linalg.solve(whole, right), np.zeros(3 * outputs)
    shared[rest] = np.linalg.solve(profile, total)
    assert shared[rest] == pytest.approx(known[: len(rest)], rel=1e-6, abs=1e-9)
    for number, (square, slope) in enumerate(zip(squares, slopes, strict=True)):
        own = full_scores(shared, slope, square, outputs)[places]
        start = len(rest) + outputs * number
        assert own == pytest.approx(known[start : start + outputs], rel=1e-6, abs=1e-9)
