"""Metrics: every pair counted once, against a count in plain loops."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import random_dag

from cipherdag.errors import GraphError
from cipherdag.findings.graph import LearntGraph, LearntPAG
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.metrics import GraphMetrics, compare
from cipherdag.graphs.pag import PAG

TRUTH = CausalGraph.from_edges("ABCDE", [("A", "B"), ("B", "C"), ("C", "D"), ("D", "E")])


def test_a_worked_example():
    learned = CausalGraph.from_edges("ABCDE", [("A", "B"), ("C", "B"), ("C", "D"), ("A", "E")])
    metrics = compare(learned, TRUTH)
    assert metrics == GraphMetrics(
        shd=3,
        reverse=1,
        extra=1,
        miss=1,
        correct=2,
        precision=0.5,
        recall=0.5,
        fdr=0.5,
        f1=0.5,
        tpr=0.5,
    )


def test_cpdags_count_a_wrong_mark_as_reverse():
    collider = CausalGraph.from_edges("ABC", [("A", "B"), ("C", "B")])
    chain = CausalGraph.from_edges("ABC", [("A", "B"), ("B", "C")])
    metrics = compare(chain.to_cpdag(), collider.to_cpdag())
    assert (metrics.shd, metrics.reverse, metrics.correct) == (2, 2, 0)
    half = CausalGraph.from_edges("ABC", [("A", "B")], [("B", "C")])
    assert compare(half, collider).reverse == 1
    assert compare(half, collider).correct == 1


def test_ratios_of_nothing_are_zero():
    empty = CausalGraph.empty("ABCDE")
    assert compare(empty, empty) == GraphMetrics(0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert compare(empty, TRUTH) == GraphMetrics(4, 0, 0, 4, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert compare(TRUTH, empty) == GraphMetrics(4, 0, 4, 0, 0, 0.0, 0.0, 1.0, 0.0, 0.0)


def test_different_variables_are_named():
    other = CausalGraph.empty(("A", "B", "C", "D", "Weight"))
    with pytest.raises(GraphError, match=r"only in the learnt graph \['Weight'\].*\['E'\]"):
        compare(other, TRUTH)


@given(st.integers(0, 10_000), st.booleans(), st.randoms(use_true_random=False))
def test_metrics_equal_a_count_by_name(seed, as_cpdag, random):
    rng = np.random.default_rng(seed)
    names = list("ABCDEF")
    learned, truth = (
        CausalGraph.from_arcs(random.sample(names, 6), random_dag(6, 2.5, rng)) for _ in range(2)
    )
    if as_cpdag:
        learned, truth = learned.to_cpdag(), truth.to_cpdag()
    marks = [
        {
            frozenset((e.source, e.target)): (e.mark, e.target if e.mark == "-->" else "")
            for e in g.edges
        }
        for g in (learned, truth)
    ]
    counts = dict.fromkeys(("correct", "reverse", "extra", "miss"), 0)
    for pair in map(frozenset, combinations(names, 2)):
        mine, true = marks[0].get(pair), marks[1].get(pair)
        if mine and true:
            counts["correct" if mine == true else "reverse"] += 1
        elif mine or true:
            counts["extra" if mine else "miss"] += 1
    metrics = compare(learned, truth)
    assert {name: getattr(metrics, name) for name in counts} == counts
    assert metrics.shd == counts["reverse"] + counts["extra"] + counts["miss"]
    assert metrics.tpr == metrics.recall
    if learned.edges:
        assert metrics.precision + metrics.fdr == pytest.approx(1.0)
    if metrics.precision + metrics.recall:
        harmonic = 2 * metrics.precision * metrics.recall / (metrics.precision + metrics.recall)
        assert metrics.f1 == pytest.approx(harmonic)
    turned = compare(truth, learned)
    assert (turned.shd, turned.extra, turned.miss) == (metrics.shd, metrics.miss, metrics.extra)


@pytest.mark.parametrize("other", [[("A", "B")], None, "edges.csv"])
def test_what_is_no_graph_is_refused_with_the_way_to_make_one(other):
    learnt = LearntGraph.of_dag("ABCDE", TRUTH.arcs)
    pag = LearntPAG(graph=PAG.from_dag(TRUTH, set()))
    compared = (learnt.metrics, learnt.metrics_cpdag, learnt.distance_to, pag.metrics)
    for compare_with in (*compared, pag.distance_to):
        with pytest.raises(GraphError, match=f"type {type(other).__name__}") as refused:
            compare_with(other)
        assert "CausalGraph.from_edges(finding.graph.nodes" in refused.value.remedy
