"""Spline description length against hand-worked numbers, splines against least squares."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import TooFewRowsError
from cipherdag.sites.compute.scores.mars import Hinge, Spline, fit_splines, make_knots
from cipherdag.sites.compute.scores.scores import LocalScores, standardised
from cipherdag.sites.compute.scores.spline_mdl import (
    SplineMdl,
    model_bits,
    parameter_bits,
    residual_bits,
    resolution,
    whole_number_bits,
)

# worked by hand: the universal code's constant, and GLOBE's lengths of 1000, 2000, 4 and 5, which
# end with the first iterated logarithm that is not positive
C = 1.5185674  # log2 2.865064
N_1000 = C + 9.9657843 + 3.3169834 + 1.7298718 + 0.7906651 - 0.3388614
N_2000 = C + 10.9657843 + 3.4549371 + 1.7886594 + 0.8388787 - 0.2534658
N_3000 = C + 11.5507468 + 3.5299142 + 1.8196331 + 0.8636476 - 0.2114853
N_4 = C + 2.0 + 1.0
N_5 = C + 2.3219281 + 1.2153233 + 0.2813401 - 1.8296127


def test_whole_numbers_are_written_as_by_hand():
    assert whole_number_bits(0.7) == 0.0
    assert whole_number_bits(1) == pytest.approx(C, abs=1e-6)
    assert whole_number_bits(4) == pytest.approx(N_4, abs=1e-6)
    assert whole_number_bits(3.2) == whole_number_bits(4)
    assert whole_number_bits(1000) == pytest.approx(N_1000, abs=1e-6)


@pytest.mark.parametrize("number", [*range(1, 17), 31, 32, 33, 100, 999, 1024, 65536, 65537])
def test_whole_numbers_are_written_as_by_globe(number):
    """Its program says of 3 that it takes 3.178 bits; Rissanen's code would take 3.768."""

    def iterated(part):
        return part + iterated(math.log2(part)) if part > 0 else part

    assert whole_number_bits(number) == pytest.approx(C + iterated(math.log2(number)), abs=1e-6)
    assert whole_number_bits(3) == pytest.approx(3.178, abs=5e-4)


def test_a_parameter_is_its_digits_its_shifts_and_its_sign():
    assert parameter_bits(0.0) == parameter_bits(1e-13) == 0.0
    assert parameter_bits(2.0) == pytest.approx(N_2000 + N_4 + 1, abs=1e-6)  # three shifts
    assert parameter_bits(-3.0) == pytest.approx(N_3000 + N_4 + 1, abs=1e-6)
    assert parameter_bits(0.2) == pytest.approx(N_2000 + N_5 + 1, abs=1e-5)  # four shifts
    assert parameter_bits(1000.0) == pytest.approx(N_1000 + C + 1, abs=1e-6)  # none


def test_a_model_worked_by_hand():
    """x with one parent of four variables: 2 - 3 max(0, u - 0.2) + 2 max(0, 2 - u)."""
    spline = Spline(((), (Hinge(0, 0.2, 1),), (Hinge(0, 2.0, -1),)), (2.0, -3.0, 2.0), 8.0)
    one, two = N_1000 + N_4 + 1, N_2000 + N_4 + 1
    three, fifth = N_3000 + N_4 + 1, N_2000 + N_5 + 1
    parents = one + 2.0  # one parent, one of four variables
    terms = three + two + (three + fifth) + (two + two)  # how many; coefficients and cuts
    kinds = 2 * (C + 3.1699250 + 0.0)  # two terms of order 1, log2 9 each, one way to choose
    assert model_bits(spline, 1, 4) == pytest.approx(parents + terms + kinds, abs=1e-5)


def test_a_product_of_two_hinges_chooses_among_its_parents():
    spline = Spline(((Hinge(0, 2.0, 1), Hinge(1, 2.0, 1)),), (2.0,), 1.0)
    two, one = N_2000 + N_4 + 1, N_1000 + N_4 + 1
    by_hand = two + 2 * 3.0 + one + 3 * two + (C + 1.0) + 2 * 3.1699250 + 1.5849625
    assert model_bits(spline, 2, 8) == pytest.approx(by_hand, abs=1e-5)


def test_residuals_worked_by_hand():
    # four residuals of variance 2 on a grid of 0.5: 2.885390 + 2 log2(4 pi) + 4
    assert residual_bits(8.0, 4, 0.5) == pytest.approx(2.8853901 + 7.3029922 + 4.0, abs=1e-6)
    assert residual_bits(0.0, 4, 0.5) == 0.0
    assert residual_bits(1e-9, 4, 0.5) == 0.0


def test_the_resolution_is_the_smallest_gap():
    assert resolution(np.array([3.0, 1.0, 1.5])) == 0.5
    assert resolution(np.array([0.0, 0.0, 20.0, 40.0])) == 10.01
    assert resolution(np.array([0.0, 0.0, 4.0])) == 4.0
    assert resolution(np.zeros(5)) == 10.01


def test_a_variable_without_parents_worked_by_hand():
    values = np.column_stack([np.tile([-3.0, 3.0], 5), np.arange(10.0)])
    # standardised it is -1 and 1; the mean costs nothing, the gap is 2, one term
    by_hand = (N_1000 + N_4 + 1) + (7.2134752 + 5 * 2.6514961 - 10.0)
    assert SplineMdl(values, device="cpu").evaluate([(0, 0)])[0] == pytest.approx(by_hand, abs=1e-5)


def hinges(spline, x):
    """The columns of a spline's terms, x of shape (k, n)."""
    columns = []
    for factors in spline.terms:
        column = np.ones(x.shape[1])
        for own in factors:
            column = column * np.maximum(0.0, own.sign * (x[own.variable] - own.cut))
        columns.append(column)
    return np.array(columns)


def fitted(x, y, predictors):
    columns = torch.from_numpy(np.ascontiguousarray(x))
    knots = make_knots(columns, len(predictors))
    target = torch.from_numpy(np.ascontiguousarray(y))[None]
    return fit_splines(columns, target, knots, torch.tensor([predictors]))[0]


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_coefficients_and_errors_are_those_of_least_squares(seed):
    rng = np.random.default_rng(seed)
    x = standardised(rng.normal(size=(120, 3))).T
    y = standardised((np.abs(x[0]) * x[1] + 0.3 * rng.normal(size=120))[:, None])[:, 0]
    spline = fitted(x, y, [0, 1, 2])
    design = hinges(spline, x)
    expected = np.linalg.lstsq(design.T, y, rcond=None)[0]
    assert np.linalg.matrix_rank(design) == len(design)
    # the columns may be nearly dependent, and coefficients then a thousand times as large
    within = 1e-6 * max(1.0, np.abs(expected).max())
    assert spline.coefficients == pytest.approx(expected, abs=within)
    assert spline.sse == pytest.approx(((y - expected @ design) ** 2).sum())
    assert spline.terms[0] == ()
    assert all(len({own.variable for own in factors}) == len(factors) <= 2
               for factors in spline.terms)  # fmt: skip


def test_the_first_pair_is_the_best_of_all_pairs():
    rng = np.random.default_rng(5)
    x = standardised(rng.normal(size=(90, 2))).T
    y = standardised(np.maximum(0, x[0] - 0.3)[:, None] + 0.1 * rng.normal(size=(90, 1)))[:, 0]
    knots = make_knots(torch.from_numpy(np.ascontiguousarray(x)), 2)
    errors = {}
    for v, place in product(range(2), np.flatnonzero(knots.usable.numpy()).tolist()):
        cut = float(knots.cuts[v, place])
        pair = [np.ones(90), np.maximum(0, x[v] - cut), np.maximum(0, cut - x[v])]
        design = np.array(pair).T
        errors[v, cut] = ((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2).sum()
    variable, cut = min(errors, key=errors.__getitem__)
    spline = fitted(x, y, [0, 1])
    assert (variable, cut) in {(own.variable, own.cut) for term in spline.terms for own in term}
    assert variable == 0
    assert cut == pytest.approx(0.3, abs=0.4)


def test_pruning_keeps_the_least_cross_validated_error():
    """No single further deletion from the kept terms, refitted, has a smaller criterion."""
    rng = np.random.default_rng(2)
    x = standardised(rng.normal(size=(150, 3))).T
    y = standardised((x[0] ** 2 + 0.8 * rng.normal(size=150))[:, None])[:, 0]
    spline = fitted(x, y, [0, 1, 2])
    design = hinges(spline, x)

    def criterion(rows):
        own = design[rows]
        left = y - np.linalg.lstsq(own.T, y, rcond=None)[0] @ own
        cost = len(rows) + 3.0 * (len(rows) - 1) / 2
        return (left @ left) / 150 / (1 - cost / 150) ** 2

    everything = list(range(len(design)))
    for dropped in everything[1:]:
        assert criterion([k for k in everything if k != dropped]) >= criterion(everything)


def test_a_kink_is_found_and_noise_is_not():
    rng = np.random.default_rng(1)
    x = standardised(rng.normal(size=(600, 4))).T
    y = np.maximum(0, x[0] - 0.5) * 2 - np.maximum(0, 0.5 - x[0])
    spline = fitted(x, standardised(y[:, None])[:, 0], [0, 1, 2])
    assert spline.sse < 1.0
    assert {own.variable for term in spline.terms for own in term} == {0}
    silent = fitted(x, x[3].copy(), [0, 1, 2])
    assert silent.sse > 0.9 * 600
    with_product = fitted(x, standardised((x[0] * x[1])[:, None])[:, 0], [0, 1])
    assert any(len(term) == 2 for term in with_product.terms)
    assert with_product.sse < 40


def test_regressions_fitted_together_are_those_fitted_alone():
    rng = np.random.default_rng(4)
    x = standardised(rng.normal(size=(200, 5)) ** 2).T
    columns = torch.from_numpy(np.ascontiguousarray(x))
    predictors = torch.tensor([[0, 1], [2, 3], [1, 4]])
    knots = make_knots(columns, 2)
    targets = columns[[4, 0, 2]]
    together = fit_splines(columns, targets, knots, predictors)
    for number, own in enumerate(together):
        alone = fit_splines(columns, targets[number][None], knots, predictors[number][None])[0]
        assert alone.terms == own.terms
        assert alone.coefficients == pytest.approx(own.coefficients, abs=1e-8)


def test_constant_tied_and_few_values():
    values = np.column_stack([
        np.zeros(40), np.repeat([0.0, 1.0], 20), np.arange(40.0), np.arange(40.0) ** 2
    ])  # fmt: skip
    score = SplineMdl(values, device="cpu")
    found = score.evaluate([(v, own) for v in range(4) for own in range(16) if not own >> v & 1])
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert math.isclose(score.evaluate([(3, 0b100)])[0], found[-4], rel_tol=0.5)
    with pytest.raises(TooFewRowsError):
        SplineMdl(values[:9], device="cpu")


def test_the_direction_of_a_nonlinear_effect_is_cheaper():
    rng = np.random.default_rng(3)
    cause = rng.uniform(-1, 1, 800)
    effect = cause**2 + 0.05 * rng.normal(size=800)
    scores = LocalScores(SplineMdl(np.column_stack([cause, effect]), device="cpu"))
    forward, backward = scores.total((0, 0b01)), scores.total((0b10, 0))
    assert forward < backward
    assert forward < scores.total((0, 0))
