"""Algorithms take part where scikit-learn's manners are expected, without importing it."""

import subprocess
import sys

import msgspec
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from cipherdag import FedBOSS, FedPC, Knowledge, Scoring
from cipherdag.algorithms.registry import ALGORITHMS, make_algorithm
from cipherdag.errors import ParameterError


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_cloned_and_made_again_from_its_parameters(name):
    required = {"effect": {"treatment": "a", "outcome": "b"}, "graphcheck": {}}
    algorithm = make_algorithm(name, required.get(name, {}))
    assert clone(algorithm) == algorithm
    assert type(algorithm)(**algorithm.get_params(deep=False)) == algorithm
    assert algorithm.set_params() == algorithm


def test_a_grid_of_levels_makes_one_algorithm_each():
    grid = ParameterGrid({"alpha": [0.01, 0.05], "max_cond_size": [1, None]})
    made = [FedPC(reveal="sums").set_params(**values) for values in grid]
    assert [(each.alpha, each.max_cond_size, each.reveal) for each in made] == [
        (0.01, 1, "sums"), (0.01, None, "sums"), (0.05, 1, "sums"), (0.05, None, "sums"),
    ]  # fmt: skip


def test_the_algorithm_that_was_asked_stays_as_it_is():
    first = FedPC(knowledge=Knowledge(forbidden=[("a", "b")]))
    other = first.set_params(alpha=0.2)
    assert (first.alpha, other.alpha) == (0.01, 0.2)
    assert other.knowledge == first.knowledge


def test_a_parameter_that_is_none_or_out_of_its_range_is_named():
    with pytest.raises(ParameterError, match="alpha must be"):
        FedPC().set_params(alpha=2.0)
    with pytest.raises(ParameterError, match="FedPC has no parameter 'alfa'") as raised:
        FedPC().set_params(alfa=0.1)
    assert raised.value.remedy == "Did you mean 'alpha'?"


def test_nothing_of_scikit_learn_or_narwhals_is_imported_for_it():
    said = (
        "import sys, cipherdag; cipherdag.FedPC().set_params(alpha=0.1).get_params();"
        "print([m for m in ('sklearn', 'narwhals', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("algorithm", [FedPC(), FedBOSS(scoring=Scoring(penalty=4.0))])
def test_parameters_as_json_has_them_make_the_algorithm_again(algorithm):
    assert type(algorithm)(**msgspec.to_builtins(algorithm)) == algorithm


@pytest.mark.parametrize("given", [{"penalt": 1.0}, {"penalty": -1.0}, {"restarts": "many"}])
def test_settings_as_json_has_them_are_refused_by_name(given):
    with pytest.raises(ParameterError, match=next(iter(given))):
        FedBOSS(scoring=given)
