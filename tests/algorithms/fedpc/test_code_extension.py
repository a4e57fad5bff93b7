"""The original program's DAG: its own rule, cycles and all, so that published numbers repeat."""

import numpy as np
import pytest
from enumeration import arcs_of
from oracle import random_dag

from cipherdag import Federation, FedPC
from cipherdag.algorithms.fedpc.graph_evidence import as_published_program
from cipherdag.graphs.extension import extension_in_code_order
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of


def plain_rule(arcs):
    """Node by node, edge by edge."""
    graph = arcs.copy()
    n = len(graph)
    while True:
        free = [v for v in range(n) if any(graph[v, u] and graph[u, v] for u in range(n))]
        if not free:
            return graph
        parents = {v: sum(graph[u, v] and not graph[v, u] for u in range(n)) for v in free}
        chosen = min(free, key=lambda v: (-parents[v], v))
        for u in range(n):
            if graph[chosen, u] and graph[u, chosen]:
                graph[u, chosen] = False


def test_the_rule_is_that_of_plain_loops():
    for seed in range(40):
        arcs = cpdag_of(random_dag(9, 2.5, np.random.default_rng(seed)))
        assert (extension_in_code_order(arcs) == plain_rule(arcs)).all()


@pytest.mark.parametrize("seed", range(14))
def test_contradicting_arrows_are_resolved_as_by_plain_loops(seed):
    """Overwritten colliders leave cycles of arrows and chains that no DAG of the class has."""
    rng = np.random.default_rng(seed)
    arcs = rng.random((12, 12)) < 0.25
    arcs |= (rng.random((12, 12)) < 0.4) & arcs.T
    np.fill_diagonal(arcs, val=False)
    found = extension_in_code_order(arcs)
    assert (arcs & arcs.T).any()
    assert (found == plain_rule(arcs)).all()
    assert not (found & found.T).any()
    assert ((found | found.T) == (arcs | arcs.T)).all()


def test_the_dag_of_a_code_run_is_that_of_the_rule():
    data = asia().sample(2000, np.random.default_rng(0))
    result = Federation.split(data, 3, seed=0, device="cpu").run(FedPC.as_published("code"))
    assert (result.finding.dag.arcs == plain_rule(result.finding.graph.arcs)).all()


def test_a_cycle_is_kept_and_said():
    cyclic = arcs_of("a>b b>c c>a c-d")
    found = as_published_program("abcd", cyclic)
    assert (found.dag.arcs == arcs_of("a>b b>c c>a c>d")).all()
    assert "cycle" in found.dag_note
    assert as_published_program("abc", arcs_of("a-b b-c")).dag_note == ""
