"""The adjustment identification distance of gadjid against the criterion of this package."""

from itertools import permutations

import networkx as nx
import numpy as np
import pytest

from cipherdag import CausalGraph

pytest.importorskip("gadjid")  # of the extra `dev`
from adjustment_distance import adjustment_distance

NAMES = ("a", "b", "c", "d", "e")


def dag(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(NAMES)
    arrows = [
        (order[i], order[j]) for i in range(5) for j in range(i + 1, 5) if rng.random() < 0.45
    ]
    return CausalGraph.from_edges(NAMES, directed=arrows)


def wrong_effects(found, truth):
    """Pairs of which the learnt parents are no adjustment set of the true DAG."""
    true = nx.DiGraph(truth.directed)
    true.add_nodes_from(NAMES)
    wrong = 0
    for x, y in permutations(NAMES, 2):
        parents = [u for u, v in found.directed if v == x]
        below = nx.has_path(true, x, y)
        if y in parents:
            wrong += below  # it says that there is no effect
        elif below:
            wrong += not truth.is_adjustment_set(x, y, parents)
        else:
            # no path is causal, so that all of them have to be blocked
            wrong += not nx.is_d_separator(true, {x}, {y}, {*parents})
    return wrong


@pytest.mark.parametrize("seed", range(40))
def test_of_dags_it_counts_effects_whose_adjustment_is_wrong(seed):
    from adjustment_distance import codes
    from gadjid import parent_aid

    found, truth = dag(seed), dag(seed + 1000)
    _, counted = parent_aid(codes(truth, NAMES), codes(found, NAMES), "from row to column")
    assert counted == wrong_effects(found, truth)


@pytest.mark.parametrize("seed", range(10))
def test_the_class_of_the_truth_has_none(seed):
    truth = dag(seed)
    assert adjustment_distance(truth.to_cpdag(), truth) == 0
    with pytest.raises(ValueError, match="different variables"):
        adjustment_distance(CausalGraph.from_edges(["a"]), truth)
