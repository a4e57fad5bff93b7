"""Designs in blocks of rows, and fits that begin where others ended: the same regressions."""

from itertools import permutations

import numpy as np
import pytest
from driving import drive
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_sites import CATEGORIES, log_likelihood, mixed_data, mixed_site
from queries import Queries, random_tests
from threads import printed_by_threads

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.pooled_regressions import WarmStarts
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.sites.compute.models import design as designs
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.likelihoods import by_pieces, linear_parts
from cipherdag.sites.compute.models.steps import model_step, whole_step
from cipherdag.statistics.newton import step_parts
from cipherdag.statistics.regression_fits import first_fit
from cipherdag.statistics.regression_models import Regression, coefficient_count, outputs


def site(data):
    return Expansion.of_site(CATEGORIES, lambda variable: data[:, variable])


@st.composite
def models(draw):
    order = draw(st.permutations(range(len(CATEGORIES))))
    size = draw(st.integers(0, 4))
    predictors, further = tuple(order[1 : 1 + size]), tuple(order[1 + size : 2 + size])
    ordered = CATEGORIES[order[0]] > 2 and draw(st.booleans())
    crossed = draw(st.integers(0, size))
    return Regression(order[0], predictors, further, ordered, crossed)


@given(model=models(), seed=st.integers(0, 99), rows=st.integers(0, 60), size=st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_blocks_are_the_whole_design_row_by_row(model, seed, rows, size):
    expand = site(mixed_data(np.random.default_rng(seed), rows, 0.1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(designs, "BLOCK_ROWS", size)
        blocks = list(expand.blocks(model))
    design, response = expand.rows(model)
    assert np.array_equal(np.concatenate([own for own, _ in blocks]), design)
    assert np.array_equal(np.concatenate([own for _, own in blocks]), response)
    assert expand.complete(model) == len(response)


@given(model=models(), seed=st.integers(0, 99), size=st.integers(1, 400))
@settings(max_examples=40, deadline=None)
def test_steps_added_up_over_blocks_are_those_of_all_rows(model, seed, size):
    rng = np.random.default_rng(seed)
    expand = site(mixed_data(rng, 300, 0.05))
    own = CATEGORIES[model.response]
    coefficients = rng.normal(size=coefficient_count(model, CATEGORIES)) * 0.3
    if model.ordered:
        coefficients[: own - 1].sort()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(designs, "BLOCK_ROWS", size)
        found = whole_step(expand, model, coefficients, own)
    expected = model_step(*expand.rows(model), coefficients, own, ordered=model.ordered)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------ fits that begin near another


def fitted(expand, model, near=None):
    """A finished fit, and how many steps it took."""
    fit, own, taken = first_fit(model, CATEGORIES, warm_start=near), CATEGORIES[model.response], 0
    while not fit.finished:
        step = whole_step(expand, model, fit.proposed, own)
        fit.update(*step_parts(step, len(fit.coefficients)), outputs(own))
        taken += 1
    return fit, taken


@pytest.mark.parametrize(("response", "ordered"), [(1, False), (2, False), (5, False), (5, True)])
def test_a_warm_start_ends_where_a_cold_start_does(response, ordered):
    rng = np.random.default_rng(response)
    data = mixed_data(rng, 2000)
    expand, others = site(data), [v for v in range(6) if v != response]
    for order in list(permutations(others, 3))[::7]:
        small = Regression(response, order[:2], order[2:], ordered)
        large = Regression(response, tuple(sorted(order)), (), ordered)
        start, _ = fitted(expand, small)
        near, quick = fitted(expand, large, start)
        cold, slow = fitted(expand, large)
        assert quick <= slow
        assert near.rank == cold.rank
        assert near.limiting_rows == pytest.approx(cold.limiting_rows)
        assert near.value == pytest.approx(cold.value, rel=1e-10, abs=1e-7)
        np.testing.assert_allclose(near.proposed, cold.proposed, rtol=1e-3, atol=1e-3)
        if not ordered:
            expected = log_likelihood(data, response, sorted(order), CATEGORIES)
            assert near.value == pytest.approx(expected, abs=1e-6)


def test_a_fit_starts_from_the_likeliest_with_most_shared_predictors():
    data = mixed_data(np.random.default_rng(0), 500)
    data[3, 3] = np.nan
    expand = site(data)
    warm_starts = WarmStarts(lambda variable: expand.incomplete([variable]))
    kept = {}
    for predictors, further in (((), ()), ((0,), ()), ((2,), ()), ((2, 3), ()), ((2,), (3,))):
        model = Regression(1, predictors, further)
        kept[predictors, further], _ = fitted(expand, model)
        warm_starts.add(kept[predictors, further])
    both = max(kept[(0,), ()], kept[(2,), ()], key=lambda fit: fit.value)
    assert warm_starts.nearest(Regression(1, (0, 2))) is both
    assert warm_starts.nearest(Regression(1, (4, 5))) is kept[(), ()]
    # only those that leave the same row out
    assert warm_starts.nearest(Regression(1, (0, 2, 3))) is kept[(2, 3), ()]
    assert warm_starts.nearest(Regression(1, (0, 2), (3,))) is kept[(2,), (3,)]
    assert warm_starts.nearest(Regression(2, (0,))) is None
    assert warm_starts.nearest(Regression(1, (0, 2), crossed=2)) is None


def test_a_fit_on_its_way_to_infinity_is_no_beginning():
    data = mixed_data(np.random.default_rng(1), 400)
    data[:, 4] = data[:, 1]
    expand = site(data)
    separated, _ = fitted(expand, Regression(1, (4,)))
    assert separated.diverged
    assert not first_fit(Regression(1, (0, 4)), CATEGORIES, warm_start=separated).coefficients.any()


@pytest.mark.parametrize("missing", [0.0, 0.04])
def test_tests_asked_one_size_after_the_other_are_those_asked_at_once(missing):
    rng = np.random.default_rng(7)
    data, tests = mixed_data(rng, 1500, missing), random_tests(6, [15, 30, 30], rng)
    sites = [mixed_site(part) for part in np.array_split(data, 3)]
    at_once = Queries("glm", tests)
    drive(at_once.ask(Facts(6, 3)), sites)
    queries, found = Queries("glm", tests), []

    def in_turn():
        source = yield from queries.open(6)
        for size, block in enumerate(tests):
            sizes = [block if k == size else own[:0] for k, own in enumerate(tests)]
            found.append((yield from source.p_values(sizes))[size])

    _, asked = drive(in_turn(), sites)
    for one, other in zip(found, at_once.found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12)
    steps = [own for own in asked if isinstance(own, RegressionSteps)]
    begun = set()
    for question in steps:
        for model in question.models:
            assert list(model.predictors) == sorted(model.predictors)
            begun.add((model.response, model.predictors, model.complete_in))
    # whichever variable is tested, one set of predictors is fitted once
    by_set = {(response, frozenset(own), further) for response, own, further in begun}
    assert len(begun) == len(by_set)


# ------------------------------------------------------------------ products of few columns


@given(
    rows=st.sampled_from([0, 1, 511, 512, 513, 1024, 3000]),
    columns=st.integers(1, 6),
    outputs=st.integers(1, 3),
    seed=st.integers(0, 99),
    by_rows=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_products_by_pieces_are_those_of_whole_matrices(rows, columns, outputs, seed, by_rows):
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(columns, rows)), rng.normal(size=(outputs, rows))
    left = np.asfortranarray(left) if by_rows else left
    np.testing.assert_allclose(by_pieces(left, right), left @ right.T, rtol=1e-10, atol=1e-10)
    own = rng.normal(size=(outputs, columns))
    np.testing.assert_allclose(linear_parts(own, left), own @ left, rtol=1e-12, atol=1e-12)


STEP = """
import hashlib
import numpy as np
from cipherdag.sites.compute.models.steps import model_step
rng = np.random.default_rng(0)
for categories in (0, 2, 4):
    design = np.column_stack([np.ones(20_001), rng.normal(size=(20_001, 8))])
    codes = rng.integers(0, max(categories, 2), 20_001).astype(float)
    own = rng.normal(size=9 * max(categories - 1, 1))
    step = model_step(design, codes, own, categories, ordered=False)
    print(hashlib.sha256(step.tobytes()).hexdigest())
"""


def test_a_step_has_the_same_bits_with_any_number_of_threads():
    assert len(printed_by_threads(STEP)) == 1
