"""Rows taken in groups that are alike: the sums of all rows, in another order."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_sites import CATEGORIES, mixed_data
from threads import printed_by_threads

from cipherdag.sites.compute.ci_tests.regression import RegressionTest
from cipherdag.sites.compute.models import design
from cipherdag.sites.compute.models.compressed_rows import CompressedRows
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.steps import model_step, whole_step
from cipherdag.statistics.regression_models import Regression, coefficient_count

DISCRETE = [v for v, count in enumerate(CATEGORIES) if count]


def site(data):
    return Expansion.of_site(CATEGORIES, lambda variable: data[:, variable])


@given(
    rows=st.integers(1, 3000),
    variables=st.lists(st.sampled_from(DISCRETE), unique=True),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_groups_hold_every_row_once_and_their_products(rows, variables, seed):
    data = mixed_data(np.random.default_rng(seed), rows)
    sizes = [CATEGORIES[v] for v in variables]
    found = CompressedRows.of(variables, sizes, lambda v: data[:, v], rows, fewest=1)
    codes, which, counts = np.unique(
        data[:, variables], axis=0, return_inverse=True, return_counts=True
    )
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_array_equal(found.counts, counts)
    assert found.present.sum() == rows
    assert found.present.size == rows + found.padding.sum()
    one = np.ones(rows)
    products = [
        one,
        data[:, 0],
        data[:, 3],
        data[:, 0] ** 2,
        data[:, 0] * data[:, 3],
        data[:, 3] ** 2,
    ]
    expected = [np.bincount(which.reshape(-1), weights=own) for own in products]
    np.testing.assert_allclose(found.moments([0, 3]), np.column_stack(expected), atol=1e-9)
    of_two = found.patterns(variables[:1])
    whole = of_two.add_up(found.moments([0])).sum(axis=0)
    np.testing.assert_allclose(whole, [rows, data[:, 0].sum(), (data[:, 0] ** 2).sum()], atol=1e-8)


@given(
    order=st.permutations(range(len(CATEGORIES))),
    size=st.integers(0, 4),
    crossed=st.integers(0, 4),
    missing=st.sampled_from([0.0, 0.03]),
    scale=st.sampled_from([0.0, 0.3, 3.0, 100.0, 1e5]),
    fewest=st.sampled_from([1, 10**9]),
    seed=st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_a_step_over_rows_that_are_alike_is_the_step_over_all_rows(
    order, size, crossed, missing, scale, fewest, seed
):
    rng = np.random.default_rng(seed)
    data = mixed_data(rng, 700, missing)
    model = Regression(order[0], tuple(order[1 : 1 + size]), crossed=min(crossed, size))
    expand, own = site(data), CATEGORIES[order[0]]
    coefficients = rng.normal(size=coefficient_count(model, CATEGORIES)) * scale
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "FEWEST_OF_ALL", fewest)
        patch.setattr(design, "FEWEST_IN_GROUP", 1)
        assert expand.compressed(model) is not None or not own
        found = whole_step(expand, model, coefficients, own)
    expected = model_step(*expand.rows(model), coefficients, own, ordered=False)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * max(scale, 1.0) * 700)


def test_coefficients_of_a_hostile_question_get_a_finite_answer():
    data = mixed_data(np.random.default_rng(0), 700)
    model = Regression(2, (0, 1, 3))
    for own in (1e300, -1e308, 1e10):
        coefficients = np.full(coefficient_count(model, CATEGORIES), own)
        with np.errstate(over="ignore", invalid="ignore"):
            found = whole_step(site(data), model, coefficients, CATEGORIES[2])
        assert np.isfinite(found).all()


def test_many_categories_take_no_more_than_their_table():
    rng, sizes = np.random.default_rng(0), (40, 40)
    data = np.column_stack([rng.integers(0, size, 10_000) for size in sizes]) * 1.0
    expand, model = Expansion.of_site(sizes, lambda v: data[:, v]), Regression(0, (1,))
    coefficients = rng.normal(size=coefficient_count(model, sizes))
    tracemalloc.start()
    found = whole_step(expand, model, coefficients, sizes[0])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3 * 8 * len(coefficients) ** 2
    expected = model_step(*expand.rows(model), coefficients, sizes[0], ordered=False)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-5)


def test_few_rows_of_many_kinds_are_taken_block_by_block():
    data = mixed_data(np.random.default_rng(0), 40)
    assert site(data).compressed(Regression(1, (0, 2, 4, 5))) is None
    assert site(data[:0]).compressed(Regression(1, (0,))) is None


@pytest.mark.parametrize("missing", [0.0, 0.03])
def test_what_a_site_says_does_not_depend_on_what_it_was_asked_before(missing):
    data = mixed_data(np.random.default_rng(3), 1200, missing)
    asked = [(1, 2, (0, 3)), (5, 0, (1, 2)), (4, 5, (0, 1)), (2, 5, (3, 4))]

    def answers(tests):
        test = RegressionTest(CATEGORIES, lambda v: data[:, v])
        found = {}
        for x, y, condition in tests:
            own = (np.array([[value]]) for value in (x, y))
            x_, y_ = (value[0] for value in own)
            found[x, y] = test.evaluate(x_, y_, np.array([condition])).statistic[0]
        return found

    assert answers(asked) == answers(asked[::-1])


STEP = """
import hashlib
import numpy as np
from cipherdag.questions.regression_steps import Regression, coefficient_count
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.steps import whole_step
CASES = [
    ((2, 4, 3, 0, 0, 0), 20_001, [(r, [v for v in range(6) if v != r]) for r in (0, 1, 3)]),
    ((30, 30, 0, 0, 20, 5, 9), 20_001, [(4, [2, 3]), (4, [0, 2]), (5, [2, 3, 6]), (6, [2])]),
    ((100, 120, 2), 60_001, [(2, [0, 1])]),
]
rng = np.random.default_rng(0)
for sizes, rows, models in CASES:
    columns = [rng.integers(0, c, rows) * 1.0 if c else rng.normal(size=rows) for c in sizes]
    expand = Expansion.of_site(sizes, columns.__getitem__)
    for response, predictors in models:
        model = Regression(response, tuple(predictors))
        coefficients = rng.normal(size=coefficient_count(model, sizes)) * 0.1
        step = whole_step(expand, model, coefficients, sizes[response])
        print(hashlib.sha256(step.tobytes()).hexdigest())
"""


def test_a_step_in_groups_has_the_same_bits_at_any_thread_count():
    assert len(printed_by_threads(STEP)) == 1
