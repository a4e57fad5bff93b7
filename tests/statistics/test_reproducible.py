"""What stands in questions has the same bits on every processor."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replaying import OLDER

from cipherdag.statistics.reproducible import (
    dot,
    exponential_of,
    logarithm,
    logarithm_of,
    on_grid,
    product,
    solve,
)

STEPS = """
import hashlib
import numpy as np
from cipherdag.statistics.newton import newton_step
state = hashlib.sha256()
rng = np.random.default_rng(0)
for size in rng.integers(1, 40, size=300):
    # as sums arrive: the same bits everywhere, whoever multiplied
    rows = rng.integers(-50, 50, size=(200, size))
    right = rng.integers(-99, 99, size).astype(float)
    move, rank = newton_step((rows.T @ rows).astype(float), right)
    state.update(move.tobytes() + bytes([rank]))
print(state.hexdigest())
"""


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(0, 3))
def test_a_solution_solves_and_has_the_rank_of_the_system(seed, size, dependent):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, size))
    rows = np.column_stack([rows, rows[:, :dependent] @ np.ones((min(dependent, size), dependent))])
    gram = rows.T @ rows
    scale = np.sqrt(gram.diagonal())
    right = rows.T @ rng.normal(size=60)
    found, rank = solve(gram / np.outer(scale, scale), right / scale, least=1e-9)
    assert rank == np.linalg.matrix_rank(rows)
    assert np.allclose(gram @ (found / scale), right, atol=1e-6)
    assert (found == 0.0).sum() >= len(found) - rank


def test_a_column_of_zeros_is_left_out():
    found, rank = solve(np.diag([1.0, 0.0]), np.array([2.0, 0.0]), least=1e-9)
    assert (found.tolist(), rank) == ([2.0, 0.0], 1)


def test_products_are_those_of_the_library():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(4, 7)), rng.normal(size=(7, 3))
    assert np.allclose(product(left, right), left @ right)
    assert dot(left[0], right[:, 0]) == pytest.approx(float(left[0] @ right[:, 0]))
    assert dot(np.array([1e16, 1.0, -1e16]), np.ones(3)) == 1.0


def test_a_grid_takes_the_last_bits_away_and_leaves_infinities():
    numbers = np.array([np.log(3.0), np.inf, -np.inf, 0.0])
    assert (on_grid(np.nextafter(numbers, 0.0)[:1]) == on_grid(numbers)[:1]).all()
    assert on_grid(numbers)[1:].tolist() == [np.inf, -np.inf, 0.0]
    assert abs(on_grid(numbers)[0] - numbers[0]) <= 2.0**-31


def test_newton_s_steps_are_the_same_on_an_older_processor():
    digests = set()
    for more in ({}, OLDER):
        environment = {**os.environ, **more, "OMP_NUM_THREADS": "1" if more else "2"}
        done = subprocess.run(
            [sys.executable, "-c", STEPS],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


@given(st.floats(-700.0, 700.0))
def test_exponentials_are_those_of_the_library(number):
    assert exponential_of(number) == pytest.approx(math.exp(number), rel=1e-13)


def test_exponentials_beyond_the_range_are_infinite_or_zero():
    assert exponential_of(1e9) == math.inf
    assert exponential_of(-1e9) == 0.0
    assert exponential_of(0.0) == 1.0


@given(st.floats(1e-300, 1e300))
def test_the_logarithm_of_one_number_has_the_bits_of_that_of_many(number):
    assert logarithm_of(number) == logarithm(np.array([number, 2.0]))[0]
