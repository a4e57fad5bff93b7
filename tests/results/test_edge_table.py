"""The p-value of every edge: a plain PC on the pooled rows finds the same."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_pc import _candidates
from scipy.stats import norm

from cipherdag.algorithms.constraint_based.pair_tests import MaxPValueTests
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.federation.simulated import Federation
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.graph import CausalGraph

ALPHA = 0.01


def rows(n=900):
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, n))
    c = 0.4 * a + 0.5 * b + rng.normal(size=n)
    d = 0.5 * c + 0.3 * a + rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": 0.2 * d + rng.normal(size=n)})


def fisher_z(frame, x, y, given):
    inverse = np.linalg.inv(np.corrcoef(frame.to_numpy()[:, [x, y, *given]].T))
    r = -inverse[0, 1] / math.sqrt(inverse[0, 0] * inverse[1, 1])
    return 2 * norm.sf(math.sqrt(len(frame) - len(given) - 3) * abs(math.atanh(r)))


def weakest(frame):
    """Of every edge that PC-stable leaves, the largest p-value of its tests, and its set."""
    n = frame.shape[1]
    graph, found, layer = ~np.eye(n, dtype=bool), {}, 0
    while graph.sum(axis=0).max() > layer:
        start = graph.copy()
        for x, y in combinations(range(n), 2):
            if not start[x, y]:
                continue
            for under in _candidates(start, x, y, layer):
                p = fisher_z(frame, x, y, under)
                found[x, y] = max(found.get((x, y), (-1.0, ())), (p, tuple(sorted(under))))
                if p > ALPHA:
                    graph[x, y] = graph[y, x] = False
        layer += 1
    return {pair: own for pair, own in found.items() if graph[pair]}


def test_the_p_value_of_an_edge_is_the_largest_of_its_tests():
    frame = rows()
    expected = {
        frozenset(frame.columns[[x, y]]): (p, set(frame.columns[list(under)]))
        for (x, y), (p, under) in weakest(frame).items()
    }
    federation = Federation.split(frame, 3, device="cpu")
    result = federation.run(FedPC(evidence="pooled", alpha=ALPHA))
    assert {frozenset((own.source, own.target)) for own in result.finding.graph.edges} == set(
        expected
    )
    for own in result.table("edges").itertuples(index=False, name=None):
        p, under = expected[frozenset(own[:2])]
        assert own[3] == pytest.approx(p, rel=1e-5, abs=1e-12)
        assert set(filter(None, own[4].split("; "))) == under
    assert f"largest p-value is {result.table('edges')['p_value'][0]:.2g}" in result.page()


@pytest.mark.parametrize("kind", [own for own in EVIDENCE if own != "vote"])
def test_every_evidence_over_all_sites_gives_every_edge_a_p_value(kind):
    algorithm = FedPC(evidence=kind, alpha=ALPHA, reveal="sums")
    result = Federation.split(rows(), 3, device="cpu").run(algorithm)
    assert len(result.table("edges"))
    assert (result.table("edges")["p_value"] <= ALPHA).all()


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1) | st.just(math.nan)), max_size=30))
def test_the_weakest_test_is_the_first_largest_in_whatever_pieces(tests):
    pairs = [*combinations(range(3), 2), (1, 0)]
    drawn = [[*pairs[k], 9 + n] for n, (k, _) in enumerate(tests)]
    table = np.array(drawn, dtype=np.int64).reshape(-1, 3)
    p_values = np.array([p for _, p in tests])
    whole, pieces = MaxPValueTests(3), MaxPValueTests(3)
    whole.on_result(table, p_values)
    for cut in np.array_split(np.arange(len(tests)), 3):
        pieces.on_result(table[cut], p_values[cut])
    plain = {}
    for (x, y, member), p in zip(table.tolist(), p_values.tolist(), strict=True):
        pair = (min(x, y), max(x, y))
        if not math.isnan(p) and p > plain.get(pair, (-1.0,))[0]:
            plain[pair] = (p, (member,))
    for own in (whole, pieces):
        told = own.of(np.ones((3, 3), dtype=bool))
        assert {pair: (p, members) for pair, members, p in told} == plain


def test_every_pair_without_an_edge_has_the_set_that_separates_it():
    frame = rows()
    result = Federation.split(frame, 3, device="cpu").run(FedPC(evidence="pooled", alpha=ALPHA))
    place = {name: k for k, name in enumerate(frame.columns)}
    joined = {frozenset((own.source, own.target)) for own in result.finding.graph.edges}
    apart = {frozenset(own) for own in combinations(frame.columns, 2)} - joined
    table = result.table("separations")
    assert len(table) == len(apart) > 0
    assert {frozenset(own) for own in table[["first", "second"]].itertuples(index=False)} == apart
    for x, y, names, support in table.itertuples(index=False, name=None):
        given = [place[name] for name in names.split("; ") if name]
        p = fisher_z(frame, place[x], place[y], given)
        assert p > ALPHA
        assert support == pytest.approx(p, abs=2e-6)


def kind_of(graph, dag):
    return LearntGraph(graph=graph, dag=dag).graph_kind


def test_a_graph_is_called_a_dag_only_where_it_is_one():
    def graph(*edges):
        return CausalGraph.from_marked("abc", [(own[0], own[2], own[1]) for own in edges])

    chain = graph(("a", "-->", "b"), ("b", "-->", "c"))
    cycle = graph(("a", "-->", "b"), ("b", "-->", "c"), ("c", "-->", "a"))
    assert kind_of(chain, chain) == "DAG"
    assert kind_of(chain.to_cpdag(), chain) == "CPDAG"
    assert kind_of(cycle, cycle) == kind_of(cycle, chain) == "directed in part"
    known = graph(("a", "-->", "b"), ("b", "---", "c"))
    assert kind_of(known, chain) == "directed in part"  # as background knowledge directs
