"""Names decide nothing: other names, the same graph and the same DAG under them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from enumeration import any_graph, relabelled
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_sites import ALL_KINDS
from oracle import random_dag

from cipherdag import Federation, FedPC
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.graphs.extension import acyclic_extension, ranks
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of

EVERY_COUNT = replace(ALL_KINDS, min_cell_size=0)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 100_000), likely=st.booleans())
def test_the_extension_follows_its_variables(seed, likely):
    """With a number of every variable: of any graph, with or without a consistent extension."""
    rng = np.random.default_rng(seed)
    arcs = any_graph(seed, largest=8)[0]
    if likely:
        arcs = cpdag_of(random_dag(int(rng.integers(2, 12)), 2.5, rng))
    standing = rng.permutation(len(arcs)).astype(float)
    order = rng.permutation(len(arcs))
    found = acyclic_extension(arcs, standing)
    again = acyclic_extension(relabelled(arcs, order), standing[order])
    assert (again == relabelled(found, order)).all()


@given(seed=st.integers(0, 100_000))
def test_ranks_of_variables_that_the_graph_tells_apart_need_no_number(seed):
    rng = np.random.default_rng(seed)
    arcs = any_graph(seed, largest=8)[0]
    order = rng.permutation(len(arcs))
    one, other = ranks(arcs), ranks(relabelled(arcs, order))
    assert sorted(one) == list(range(len(arcs)))
    # position is used between variables alike alone, so their places are one block either way
    undirected = (arcs & arcs.T).sum(axis=0)
    assert (np.diff(undirected[np.argsort(one)]) >= 0).all()
    assert (undirected[np.argsort(one)] == undirected[order][np.argsort(other)]).all()


def gaussian(seed, rows):
    rng = np.random.default_rng(seed)
    dag = random_dag(8, 2.0, rng)
    values = np.zeros((rows, 8))
    left = list(range(8))
    while left:
        node = next(v for v in left if not set(np.flatnonzero(dag[:, v])) & set(left))
        weights = rng.uniform(0.4, 0.9, int(dag[:, node].sum()))
        values[:, node] = values[:, dag[:, node]] @ weights + rng.normal(size=rows)
        left.remove(node)
    return pd.DataFrame(values, columns=list("abcdefgh"))


@pytest.mark.parametrize(
    ("parameters", "discrete"),
    [
        ({"evidence": "pooled"}, True),
        ({"evidence": "fisher", "colliders": "majority"}, True),
        ({"evidence": "pooled"}, False),
        ({"evidence": "fisher", "colliders": "conservative"}, False),
        ({"evidence": "fisher", "colliders": "sepset"}, True),
        ({}, True),
        ({"evidence": "vote", "voting": Voting(sepset="mean")}, False),
    ],
)
def test_permuted_names_give_the_same_graph_and_dag_under_other_names(parameters, discrete):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        data = asia().sample(1500, rng) if discrete else gaussian(seed, 600)
        names = list(data.columns)
        others = dict(
            zip(names, rng.permutation([f"n{k}" for k in range(len(names))]), strict=True)
        )
        algorithm = FedPC(**parameters)
        found, again = (
            Federation.split(own, 3, seed=seed, device="cpu", policy=EVERY_COUNT).run(algorithm)
            for own in (data, data.rename(columns=others))
        )
        assert found.finding.graph.relabel(others) == again.finding.graph
        assert found.finding.dag.relabel(others) == again.finding.dag
        assert found.finding.dag.is_dag
