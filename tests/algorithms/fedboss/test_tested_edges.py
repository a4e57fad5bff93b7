"""Edges and colliders that tests give to the best graph, among categories."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from driving import outcome_of

from cipherdag import CausalGraph, FedBOSS, Federation
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedboss.report import (
    BY_COMPARISON,
    BY_TESTS,
    FedBOSSOutcome,
    concluded,
)
from cipherdag.algorithms.fedboss.set_sources import SetPenalty
from cipherdag.algorithms.fedboss.settings import Scoring, set_score
from cipherdag.algorithms.fedboss.tested_edges import with_tested_edges
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.graphs.dags import dag_of
from cipherdag.graphs.knowledge import Constraints, Knowledge

SEARCH_ALONE = FedBOSS(scoring=Scoring(max_parents=8))  # a bound on parents takes no edge of tests


def matrix(p, *arcs):
    made = np.zeros((p, p), dtype=bool)
    for u, v in arcs:
        made[u, v] = True
    return made


def both(p, *edges):
    return matrix(p, *edges) | matrix(p, *edges).T


class Scores:
    """Says that the pairs given gain, and notes which were asked."""

    def __init__(self, categories, *gain, rows=1000):
        self.penalty = SetPenalty(np.array(categories), set_score(rows), 2.0)
        self.gain, self.asked = set(gain), None

    def gaining_pairs(self, pairs):
        yield from ()
        self.asked = list(pairs)
        return self.gain & set(pairs)


def joined(dag, tested, scores, constraints=None):
    p = len(dag)
    known = constraints or Constraints.none(p)
    return outcome_of(with_tested_edges(dag_of(dag), tested, scores, known, n_sites=5))


def said_of(skeleton, *, colliders=(), ambiguous=(), independent=None):
    return FedPCOutcome(
        skeleton=skeleton,
        arcs=skeleton,
        separators={},
        support={},
        colliders=dict.fromkeys(colliders, 5.0),
        ambiguous=tuple(ambiguous),
        independent=np.zeros_like(skeleton) if independent is None else independent,
    )


TWO_OF_THREE = {6: (0, 1, 2), 7: (3, 4, 5)}


def additive(seed, causes_of=TWO_OF_THREE, rows=300, sites=5):
    """Columns of three categories, of which some have causes whose effects on a logit add up."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(sites):
        codes = rng.integers(0, 3, (rows, 8))
        for effect, causes in causes_of.items():
            score = sum(0.9 * (codes[:, c, None] == np.arange(3)) for c in causes)
            codes[:, effect] = (score + rng.gumbel(size=(rows, 3))).argmax(axis=1)
        tables.append(pd.DataFrame(codes, columns=list("abcdefgh")).astype(str))
    arcs = matrix(8, *((c, effect) for effect, causes in causes_of.items() for c in causes))
    return {f"s{k}": t for k, t in enumerate(tables)}, CausalGraph.from_arcs(list("abcdefgh"), arcs)


def test_additive_causes_are_found_that_scores_alone_lose():
    lost, left = [], []
    for seed in range(3):
        tables, truth = additive(seed)
        federation = Federation.simulate(tables)
        for algorithm, errors in ((SEARCH_ALONE, lost), (FedBOSS(), left)):
            errors.append(federation.run(algorithm).finding.metrics_cpdag(truth).shd)
    assert max(left) <= 2
    assert np.median(left) == 0
    assert sum(lost) > sum(left) + 3


def test_chance_edges_of_independent_columns_stay_out():
    rng = np.random.default_rng(4)
    names = [f"v{k:02d}" for k in range(40)]
    tables = {
        f"s{k}": pd.DataFrame(rng.choice(list("abc"), (60, 40)), columns=names) for k in range(5)
    }
    graph = Federation.simulate(tables).run(FedBOSS()).finding.graph
    assert len(graph.edges) <= 2


def test_thirty_sites_of_few_rows_bring_hardly_a_false_edge():
    # a chain of ten columns of four categories; 33 rows leave most cells of three columns empty
    rng, names = np.random.default_rng(5), list("abcdefghij")
    truth = CausalGraph.from_arcs(names, matrix(10, *((v, v + 1) for v in range(9))))
    tables = {}
    for site in range(30):
        codes = rng.integers(0, 4, (33, 10))
        for v in range(1, 10):
            codes[:, v] = np.where(rng.random(33) < 0.6, codes[:, v - 1], codes[:, v])
        tables[f"s{site:02d}"] = pd.DataFrame(codes, columns=names).astype(str)
    far = Federation.simulate(tables).run(FedBOSS()).finding.metrics_cpdag(truth)
    assert far.extra <= 10 // 8
    assert far.miss == 0


def test_an_edge_of_tests_needs_a_gain_or_two_joined_ends():
    dag = matrix(6, (0, 1), (2, 3))
    found = said_of(both(6, (0, 1), (1, 2), (2, 3), (3, 4), (4, 5)))
    scores = Scores([2] * 6, (4, 5))
    classed, by_tests = joined(dag, found, scores)
    assert scores.asked == [(3, 4), (4, 5)]
    assert (by_tests == both(6, (1, 2), (4, 5))).all()
    assert (classed.dag | classed.dag.T == both(6, (0, 1), (1, 2), (2, 3), (4, 5))).all()


def test_an_edge_of_ends_independent_given_nothing_falls():
    dag = matrix(4, (0, 1), (2, 3))
    found = said_of(both(4, (0, 1)), independent=both(4, (0, 2), (2, 3)))
    classed, by_tests = joined(dag, found, Scores([2, 2, 3, 3]))
    assert (classed.dag | classed.dag.T == both(4, (0, 1))).all()
    assert not by_tests.any()
    # where nothing could be tested, the score decides
    found = replace(found, removed_untested=both(4, (2, 3)))
    classed, _ = joined(dag, found, Scores([2, 2, 3, 3]))
    assert (classed.dag | classed.dag.T == both(4, (0, 1), (2, 3))).all()


@pytest.mark.parametrize(("rows", "falls"), [(25, True), (30, False)])
def test_a_separated_edge_falls_if_its_table_has_too_few_rows(rows, falls):
    dag = matrix(3, (0, 1))  # nine cells for five or six rows of each of five sites
    found = said_of(np.zeros((3, 3), dtype=bool))
    classed, _ = joined(dag, found, Scores([3, 3, 2], rows=rows))
    assert classed.dag.any() == (not falls)
    classed, _ = joined(dag, said_of(both(3, (0, 1))), Scores([3, 3, 2], rows=rows))
    assert classed.dag.any()


@pytest.mark.parametrize("categories", [[2, 2, 2], [2, 0, 2], [0, 2, 2]])
def test_tests_judge_a_triple_of_categories_alone(categories):
    chain, collider = matrix(3, (0, 1), (1, 2)), matrix(3, (0, 1), (2, 1))
    skeleton = both(3, (0, 1), (1, 2))
    found = said_of(skeleton, colliders=[(0, 1, 2)])
    expected = collider if all(categories) else skeleton
    assert (joined(chain, found, Scores(categories))[0].arcs == expected).all()
    expected = skeleton if all(categories) else collider
    assert (joined(collider, said_of(skeleton), Scores(categories))[0].arcs == expected).all()


def test_scores_judge_what_tests_leave_open():
    collider, skeleton = matrix(3, (0, 1), (2, 1)), both(3, (0, 1), (1, 2))
    found = said_of(skeleton, ambiguous=[(0, 1, 2)])
    assert (joined(collider, found, Scores([2, 2, 2]))[0].arcs == collider).all()


def test_knowledge_holds_for_edges_that_tests_add():
    tables, _ = additive(0)
    known = Knowledge(forbidden=(("a", "g"),), required=(("b", "g"),))
    graph = Federation.simulate(tables).run(FedBOSS(knowledge=known)).finding.dag
    assert ("a", "g") not in graph.directed
    assert ("b", "g") in graph.directed


def test_the_report_says_which_edges_rest_on_tests():
    skeleton = both(3, (0, 1), (1, 2))
    outcome = FedBOSSOutcome(
        dag=matrix(3, (0, 1), (1, 2)), arcs=skeleton, by_tests=both(3, (0, 1)), compared=4
    )
    found = concluded(outcome, Facts(3, 3, names=("a", "b", "c"))).evidence.edges
    assert {edge.source + edge.target: edge.facts for edge in found} == {
        "ab": (BY_TESTS,),
        "bc": (BY_COMPARISON,),
    }
