"""Variances where rows are visits: those of clustered sandwiches, and today's without repeats."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.sandwich_covariance import S_crosssection

from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.score_bits import FORM_BITS, SCORE_BITS, RaoBits
from cipherdag.questions.scores.score_sums import RaoSums
from cipherdag.questions.scores.score_test import form_level, form_threshold
from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.models.set_likelihoods import SetLikelihoods
from cipherdag.sites.compute.models.steps import model_step
from cipherdag.sites.compute.patients import (
    Patients,
    design_effect,
    standard_columns,
    visit_weights,
)
from cipherdag.sites.compute.rows import Rows
from cipherdag.sites.compute.score_tests.patients import row_scores
from cipherdag.sites.compute.score_tests.residuals import products, row_products
from cipherdag.sites.compute.score_tests.site_scores import SiteScores
from cipherdag.statistics.newton import step_parts

CATEGORIES = (2, 4, 3, 0, 0, 0)
VISITS = 50


def answered(rows, tests, patients, *, categories=CATEGORIES, ordered=(), n_rows=None):
    """What a site answers of tests by size of S, by segment."""
    counts, members = pack_blocks(tests)
    question = RaoSums(
        categories=categories,
        counts=counts,
        members=members,
        n_rows=n_rows or 3 * len(rows),
        ordered=ordered,
        visits=VISITS,
    )
    codes = np.where(np.isnan(rows), -1, rows).astype(np.int64)
    counted = DiscreteColumns(codes, PROCESSOR, memory_bytes=1 << 26, levels=np.array(categories))
    whose = None if patients is None else Patients(patients)
    site = SiteScores(categories, lambda v: rows[:, v], lambda: counted, PROCESSOR, whose)
    return question.read(site.answer(question))


def drawn(rng, n, *, categories=CATEGORIES, missing=0.0):
    columns = [rng.integers(0, size, n) if size else rng.normal(size=n) for size in categories]
    rows = np.column_stack(columns).astype(float)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def every_test(p):
    given = {pair: [v for v in range(p) if v not in pair] for pair in combinations(range(p), 2)}
    return [
        np.array([(*pair, *s) for pair, others in given.items() for s in combinations(others, k)])
        for k in range(3)
    ]


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    missing=st.sampled_from([0.0, 0.1]),
    ordered=st.sampled_from([(), (1,), (1, 2)]),
)
def test_with_unique_keys_answers_are_equal_bit_by_bit(seed, missing, ordered):
    rng = np.random.default_rng(seed)
    rows = drawn(rng, 150, missing=missing)
    by_row = answered(rows, every_test(6), None, ordered=ordered)
    by_patient = answered(rows, every_test(6), rng.permutation(150), ordered=ordered)
    for one, other in zip(by_row, by_patient, strict=True):
        assert np.array_equal(one, other)


def test_a_number_s_variance_is_the_clustered_sandwich():
    rng = np.random.default_rng(1)
    patients = np.sort(rng.integers(0, 40, 200))
    rows = rng.normal(size=(200, 3)) + rng.normal(size=(40, 3))[patients]
    none = np.zeros((0, 2), dtype=np.int64)
    tests, kinds = [none, np.array([[0, 1, 2]])], {"categories": (0, 0, 0)}
    by_patient = answered(rows, tests, patients, **kinds)
    # 40 patients afford a square, as 40 rows do
    design = np.column_stack([np.ones(200), rows[:, 2], rows[:, 2] ** 2])
    left = rows[:, :2] - design @ np.linalg.lstsq(design, rows[:, :2], rcond=None)[0]
    rest, everywhere = np.array([197.0]), np.ones((1, 200), dtype=bool)
    made = row_products(left.T[None], rest, everywhere)
    terms, by_row = made[0], products(made, rest, everywhere)
    sandwich = S_crosssection(terms[:, None], patients).item()
    m = len(np.unique(patients))
    beyond = (sandwich - (terms**2).sum()) * m / (m - 1 - 2)
    assert by_patient.means[0] - by_row[1].item() == pytest.approx(beyond, rel=1e-9)
    assert by_patient.scores.item() == pytest.approx(by_row[0].item(), rel=1e-9)


def test_a_table_s_variance_adds_products_of_visits_over_strata():
    rng = np.random.default_rng(2)
    patients = np.repeat(np.arange(30), 5)
    x, y = ((rng.random(30) < 0.4)[patients] ^ (rng.random(150) < 0.2) for _ in range(2))
    s = rng.integers(0, 2, 150)
    rows = np.column_stack([x, y, s]).astype(float)
    none = np.zeros((0, 2), dtype=np.int64)
    tests, kinds = [none, np.array([[0, 1, 2]])], {"categories": (2, 2, 2)}
    by_row, by_patient = (answered(rows, tests, each, **kinds) for each in (None, patients))
    terms = np.zeros(150)
    for stratum in (0, 1):
        mine = s == stratum
        terms[mine] = (x[mine] - x[mine].mean()) * (y[mine] - y[mine].mean())
    whole = np.array([terms[patients == p].sum() for p in range(30)])
    beyond = (30 / 29) * ((whole**2).sum() - (terms**2).sum())
    assert by_patient.means[0] == pytest.approx(by_row.means[0] + beyond, rel=1e-9)
    assert by_patient.means[0] > 1.3 * by_row.means[0]


def test_a_large_table_has_less_freedom_where_visits_repeat():
    rng = np.random.default_rng(3)
    patients = np.repeat(np.arange(40), 6)
    rows = rng.integers(0, 4, (40, 2))[patients].astype(float)
    rows[:, 0] = np.where(rng.random(240) < 0.5, rng.integers(0, 4, 240), rows[:, 0])
    tests, kinds = [np.array([[0, 1]])], {"categories": (4, 4)}
    by_row, by_patient = (answered(rows, tests, each, **kinds) for each in (None, patients))
    assert np.array_equal(by_row.scores, by_patient.scores)
    assert by_patient.means[0] > by_row.means[0]
    assert by_patient.spreads[0] > by_row.spreads[0]


@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
def test_f_is_the_spread_of_the_form_however_alike_visits_are(alike):
    """Of rare and common cells, by the variance of |sum of U|^2 over 3,000 samples."""
    rng, shares = np.random.default_rng(15), np.array([0.5, 0.3, 0.2])
    visits = np.tile([1, 2, 3, 8], 10)
    patients = np.repeat(np.arange(40), visits)
    repeats, cells = Patients(patients).repeats(), np.outer(shares, shares).ravel()
    centred = np.eye(3) - shares
    terms = np.einsum("ia,jb->ijab", centred, centred).reshape(9, 9) / np.sqrt(cells)
    covariances = len(patients) * (terms.T * cells) @ terms
    forms, squares = np.zeros((2, 3000))
    for number in range(3000):
        cell = rng.choice(9, 40, p=cells)[patients]
        fresh = rng.random(len(cell)) >= alike
        cell[fresh] = rng.choice(9, int(fresh.sum()), p=cells)
        forms[number] = (terms[cell].sum(axis=0) ** 2).sum()
        squares[number] = repeats.squared(terms[cell], covariances, 1.0)
    assert 0.9 < ((covariances**2).sum() + squares.mean()) / (forms.var() / 2.0) < 1.25


@pytest.mark.parametrize("ordered", [False, True])
def test_scores_of_rows_add_up_to_the_gradient(ordered):
    rng = np.random.default_rng(4)
    design = np.column_stack([np.ones(80), rng.normal(size=(80, 2))])
    response = rng.integers(0, 3, 80).astype(float)
    coefficients = np.array([-0.5, 0.7, 0.2, -0.3] if ordered else [0.1, -0.2, 0.3, 0.2, 0.5, -0.4])
    each = row_scores(design, response, coefficients, 3, ordered=ordered)

    def gradient(rows):
        step = model_step(design[rows], response[rows], coefficients, 3, ordered=ordered)
        return step_parts(step, len(coefficients))[1]

    assert each.sum(axis=0) == pytest.approx(gradient(slice(None)), abs=1e-9)
    assert each[7] == pytest.approx(gradient(slice(7, 8)), abs=1e-9)


@pytest.mark.parametrize("triplet", [(3, 4), (0, 1), (0, 3), (1, 3, 4), (0, 1, 2)])
@pytest.mark.parametrize(("patients", "done"), [(10, False), (15, True)])
def test_few_patients_do_no_test_however_many_rows(triplet, patients, done):
    rng = np.random.default_rng(5)
    rows = drawn(rng, 40 * patients)
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(len(triplet) - 2)]
    tests = [*empty, np.array([triplet])]
    made = answered(rows, tests, np.repeat(np.arange(patients), 40))
    assert (made.rows[0] > 0) == (made.sites[0] > 0) == (made.means[0] > 0) == done


@pytest.mark.parametrize("categories", [(0, 0), (2, 2), (4, 4)])
def test_words_hold_the_variance_of_rows_that_all_agree(categories):
    """Fifty equal rows of a patient have fifty times the variance, and no word is cut."""
    rng = np.random.default_rng(8)
    first = [rng.integers(0, k, 40) if k else rng.normal(size=40) for k in categories]
    patients = np.repeat(np.arange(40), VISITS)
    rows = np.column_stack([first[0], first[0] if categories[0] else first[1]])[patients]
    counts, members = pack_blocks([np.array([[0, 1]])])
    question = RaoSums(
        categories=categories, counts=counts, members=members, n_rows=len(rows), visits=VISITS
    )
    made = answered(
        rows.astype(float), [np.array([[0, 1]])], patients,
        categories=categories, n_rows=len(rows),
    )  # fmt: skip
    by_row = answered(
        rows.astype(float), [np.array([[0, 1]])], None, categories=categories, n_rows=len(rows)
    )
    assert made.means[0] > 30 * by_row.means[0]
    asked = RaoBits(question, (0.01,))
    part = form_threshold(made.means, question.spreads(made), form_level(0.01))[0]
    word = asked.words(question.pack(made))[int(question.sizes.sum())]
    bits = FORM_BITS if question.sizes[0] > 1 else SCORE_BITS
    assert word == int(np.ceil(np.ldexp(part, 2 * bits)))


@pytest.mark.parametrize("categories", [(0, 0, 0), (2, 2, 2), (2, 0, 0), (2, 0, 2)])
def test_treatments_in_turn_keep_the_level(categories):
    """Each patient has both treatments equally often, so that O is nearly -V."""
    rng, dependent = np.random.default_rng(7), 0
    patients, none = np.repeat(np.arange(30), 4), np.zeros((0, 2), dtype=np.int64)
    turn = np.tile(np.arange(4) % 2, 30)
    for _ in range(150):
        x = (turn + rng.integers(0, 2, 30)[patients]) % 2 + (0.05 * rng.normal(size=120)) * (
            not categories[0]
        )
        y = 3.0 * rng.normal(size=30)[patients] + rng.normal(size=120)
        y = (y > 0.0) if categories[1] else y
        s = rng.integers(0, 2, 120) if categories[2] else rng.normal(size=120)
        rows = np.column_stack([x, y, s]).astype(float)
        sums = answered(rows, [none, np.array([[0, 1, 2]])], patients, categories=categories)
        beyond = abs(sums.scores[0]) > stats.norm.isf(0.025) * sums.means[0] ** 0.5
        dependent += beyond and sums.means[0] > 0
    assert dependent < 20


def test_patients_keep_the_level_that_rows_exceed():
    rng, tests, found = np.random.default_rng(6), [np.array([[0, 1]])], np.zeros(2)
    patients = np.repeat(np.arange(60), 6)
    for _ in range(200):
        rows = rng.normal(size=(360, 2)) + 1.5 * rng.normal(size=(60, 2))[patients]
        for number, each in enumerate((None, patients)):
            sums = answered(rows, tests, each, categories=(0, 0))
            found[number] += 2 * stats.norm.sf(abs(sums.scores[0]) / sums.means[0] ** 0.5) < 0.05
    assert found[0] > 40
    assert found[1] < 22


def test_the_design_effect_of_stable_columns_is_that_of_copies():
    rng = np.random.default_rng(11)
    visits = rng.integers(1, 30, 200)
    patients = rng.permutation(np.repeat(np.arange(200), visits))
    stable = standard_columns(rng.normal(size=(200, 3))[patients])
    copies = (visits**2).sum() / visits.sum() * 200 / 199
    which = np.arange(3)
    assert 0.8 * copies < design_effect(stable, which, patients) <= copies
    varying = standard_columns(rng.normal(size=(len(patients), 3)))
    assert 1.0 <= design_effect(varying, which, patients) < 1.6
    # columns of one variable are not compared with each other
    assert design_effect(stable, np.zeros(3), patients) == pytest.approx(200 / 199)
    assert design_effect(stable, which, np.arange(len(patients))) == 1.0
    # few patients are worth themselves, whatever their columns say
    few = np.repeat(np.arange(5), 20)
    assert design_effect(varying[:100], which, few) == pytest.approx(20 * 5 / 4)


def test_weights_of_visits_add_up_to_what_they_are_worth():
    rng = np.random.default_rng(12)
    patients = np.repeat(np.arange(300), rng.integers(1, 9, 300))
    stable = visit_weights(standard_columns(rng.normal(size=(300, 2))[patients]), patients)
    assert stable.sum() == pytest.approx(round(stable.sum()))
    assert 300 <= round(stable.sum()) < 400
    varying = visit_weights(standard_columns(rng.normal(size=(len(patients), 2))), patients)
    assert 0.7 * len(patients) < varying.sum() <= len(patients)
    assert visit_weights(stable[:, None], np.arange(len(stable))) is None
    assert visit_weights(stable[:, None], None) is None


@pytest.mark.parametrize("categories", [(0, 0, 0), (3, 3, 3), (3, 0, 2)])
def test_repeated_rows_have_the_likelihood_of_one_of_each(categories):
    """Each patient's visit stands there six times: six copies say no more than one."""
    rng = np.random.default_rng(13)
    rows = drawn(rng, 80, categories=categories)
    sets = [np.arange(3)[:, None], np.array([[0, 1], [0, 2]])]

    def likelihoods(values, patients):
        codes = np.where(np.array(categories) > 0, values, -1).astype(np.int64)
        made = Rows(codes, values, categories, patients=patients)
        return SetLikelihoods(made, PROCESSOR).answer(sets, 1)

    once = likelihoods(rows, None)
    assert np.array_equal(once, likelihoods(rows, rng.permutation(80)))
    copied = likelihoods(np.repeat(rows, 6, axis=0), np.repeat(np.arange(80), 6))
    assert copied == pytest.approx(once * 79 / 80, rel=0.05, abs=1.0)
