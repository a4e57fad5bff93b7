"""Marks of place and spread tell of no few rows, and are near enough to choose a unit by."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cipherdag.sites.compute.descriptions.location_scale_hints import (
    NO_HINTS,
    column_hints,
    winsorise,
)
from cipherdag.sites.compute.descriptions.location_scale_hints import (
    hints_of as hints_of_columns,
)

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.integers(1, 40).flatmap(lambda n: arrays(np.float64, n, elements=NUMBERS))
LEAST = st.integers(0, 12)


def hints_of(values, least):
    return hints_of_columns(values[None], least)[0]


@given(COLUMNS, LEAST)
def test_marks_are_whole_and_finite(values, least):
    place, spread, size = hints_of(values, least)
    assert math.isfinite(place)
    assert float(spread[0]).is_integer()
    assert float(size[0]).is_integer()
    assert spread[1] + size[1] <= 1.0
    if len(values) < least or not values.any():
        assert (place, spread, size) == NO_HINTS
    else:
        assert spread[1] + size[1] == 1.0


@given(COLUMNS, LEAST)
def test_winsorising_moves_fewer_than_the_least_and_only_inwards(values, least):
    assume(len(values) >= least)
    near = winsorise(values, least)
    moved = near != values
    assert moved.sum() < max(least, 1)
    slack = np.abs(values).max() * 1e-300  # numbers beside it that have no leading digit
    assert (near >= values.min() - slack).all()
    assert (near <= values.max() + slack).all()


def test_few_values_do_not_hold_most_of_what_is_told():
    rng = np.random.default_rng(0)
    values = rng.lognormal(0.0, 2.5, 300)
    near = winsorise(values, 11)
    apart = np.sort((near - np.median(near)) ** 2)
    assert near.max() < values.max()
    assert apart[-1] == pytest.approx(apart[-11])
    assert not np.any(winsorise(np.where(np.arange(300) < 10, values, 0.0), 11))


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_a_bell_curve_stays_as_it_is(n):
    values = np.random.default_rng(n).normal(size=n)
    assert winsorise(values, 11 if n > 30 else 5) is values


@pytest.mark.parametrize("value", [1e3, 1e6, 1e9])
def test_one_far_value_shows_as_a_multiple_of_eight_at_most(value):
    values = np.random.default_rng(0).normal(size=300)
    values[5] = value
    _, spread, _ = hints_of(values, 11)
    assert spread[0] in (8.0, round(math.log2(winsorise(values, 11).std())) + 8.0)
    zeros = np.where(np.arange(300) == 5, value, 0.0)
    assert hints_of(zeros, 11)[1][0] % 8.0 == 0.0


def test_a_place_is_told_to_an_eighth_of_about_a_deviation():
    rng = np.random.default_rng(0)
    for _ in range(50):
        centre, deviation = rng.normal(0.0, 50.0), rng.uniform(0.5, 20.0)
        values = rng.normal(centre, deviation, 500)
        place, spread, _ = hints_of(values, 11)
        told, unit = math.ldexp(math.sinh(place), -100), 2.0 ** spread[0]
        assert told / (unit / 4.0) == pytest.approx(round(told / (unit / 4.0)), abs=1e-6)
        assert abs(told - values.mean()) <= unit / 8.0 * 1.000001
        assert 0.7 < unit / values.std() < 1.42


@given(st.integers(0, 2**32 - 1), LEAST)
def test_columns_are_marked_together_as_each_is_alone(seed, least):
    rng = np.random.default_rng(seed)
    drawn = (rng.standard_normal, rng.standard_cauchy, np.zeros, np.ones, rng.exponential)
    columns = [
        own(size=n) * 10.0 ** rng.integers(-9, 9) if own not in (np.zeros, np.ones) else own(n)
        for own in rng.choice(np.array(drawn, dtype=object), 8)
        for n in rng.integers(0, 300, 2).repeat(2).tolist()
    ]
    together = column_hints(columns, least)
    for own, (place, spread, told, size, sized) in zip(columns, together.T, strict=True):
        assert hints_of(own, least) == (place, (spread, told), (size, sized))
    assert column_hints([], least).shape == (5, 0)
