"""FedBOSS's greedy equivalence search: every step against all DAGs of all classes, and oracles."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from driving import drive
from oracle import random_dag
from regretting import every_dag, linear_data

from cipherdag import FedBOSS, Federation, Knowledge, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedboss.equivalence_search import greedy, moved
from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.errors import ParameterError
from cipherdag.graphs.dags import dag_of, empty_dag, matrix_of, members
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.answers.table_respondent import table_respondent


def ended(search):
    with pytest.raises(StopIteration) as stopped:
        next(search)
    return stopped.value.value


def model(p, seed, degree=2.0):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, (p, p)) * rng.choice([-1, 1], (p, p))
    return dag_of(random_dag(p, degree, rng)), weights


def scores_of(p, seed, rows):
    dag, weights = model(p, seed)
    data = linear_data(dag, weights, rows, np.random.default_rng(seed))
    own = np.corrcoef(data, rowvar=False)
    return MomentScores(own, rows, penalty=1.0, max_parents=p), data


def trees_of(scores):
    nothing = [0] * scores.n_variables
    return GrowShrinkTrees(scores, nothing, nothing)


def total(scores, dag):
    return sum(scores.score(v, parents) for v, parents in enumerate(dag))


def signature(dag):
    """Skeleton and unshielded colliders, which Markov-equivalent graphs share."""
    arcs = matrix_of(dag)
    joined = arcs | arcs.T
    colliders = {
        (u, v, w)
        for v in range(len(dag))
        for u in members(dag[v])
        for w in members(dag[v])
        if u < w and not joined[u, w]
    }
    return joined.tobytes(), frozenset(colliders)


@cache
def classes(p):
    """All DAGs by class."""
    found = {}
    for dag in every_dag(p):
        found.setdefault(signature(dag), []).append(dag)
    return found


def one_edge_away(dag, phase):
    """Signatures of all classes that one DAG of this one's class leads to by one edge."""
    reached = set()
    acyclic = set(every_dag(len(dag)))
    for own in classes(len(dag))[signature(dag)]:
        for v in range(len(own)):
            for u in set(range(len(own))) - {v}:
                there = own[v] >> u & 1
                if bool(there) == (phase == "insert"):
                    continue
                other = list(own)
                other[v] ^= 1 << u
                if phase == "turn":
                    other[u] |= 1 << v
                if tuple(other) in acyclic:
                    reached.add(signature(tuple(other)))
    return reached - {signature(dag)}


def by_enumeration(scores):
    """GES in the plainest way: of all classes one edge away the best, phase by phase."""
    dag = empty_dag(scores.n_variables)
    idle = 0
    while idle < 3:
        for phase in ("insert", "delete", "turn"):
            idle += 1
            while near := one_edge_away(dag, phase):
                best = max(near, key=lambda own: total(scores, classes(len(dag))[own][0]))
                other = classes(len(dag))[best][0]
                if total(scores, other) - total(scores, dag) < scores.least:
                    break
                dag, idle = other, 0
    return dag


@pytest.mark.parametrize("seed", range(20))
def test_it_ends_in_the_class_that_enumeration_of_all_classes_ends_in(seed):
    scores, _ = scores_of(4, seed, rows=60 + 40 * seed)
    found = ended(greedy(trees_of(scores)))
    assert signature(found.dag) == signature(by_enumeration(scores))
    # every gain was of the class: its graphs score alike, to the rounding of families
    assert found.curve[-1] == pytest.approx(total(scores, found.dag), abs=40)
    assert list(found.curve) == sorted(found.curve)


@pytest.mark.parametrize("seed", range(12))
def test_with_exact_correlations_it_finds_the_class_of_the_truth(seed):
    dag, weights = model(9, seed)
    through = np.linalg.inv(np.eye(9) - np.where(matrix_of(dag), weights, 0.0))
    covariance = through.T @ through
    scale = np.sqrt(covariance.diagonal())
    exact = covariance / np.outer(scale, scale)
    scores = MomentScores(exact, 10**7, penalty=1.0, max_parents=8)
    found = ended(greedy(trees_of(scores)))
    assert (cpdag_of(matrix_of(found.dag)) == cpdag_of(matrix_of(dag))).all()


@pytest.mark.parametrize("seed", range(6))
def test_insertions_and_deletions_end_where_causal_learn_ends(seed):
    from causallearn.search.ScoreBased.GES import ges

    scores, data = scores_of(7, seed, rows=400)
    trees = trees_of(scores)
    grown, _ = ended(moved(empty_dag(7), trees, "insert"))
    own, _ = ended(moved(grown, trees, "delete"))
    # its score takes ln(n) lambda per parent: half as much as ours has for a factor
    found = ges(data, "local_score_BIC", lambda_value=0.5)["G"].graph
    theirs = (found.T == 1) | ((found == -1) & (found.T == -1))
    assert (theirs == cpdag_of(matrix_of(own))).all()


@cache
def patients(rows=3000):
    return asia().sample(rows, np.random.default_rng(1))


@cache
def numbers(rows=900):
    chain = dag_of(np.eye(5, k=1, dtype=bool))
    values = linear_data(chain, np.full((5, 5), 0.8), rows, np.random.default_rng(0))
    return pd.DataFrame(values, columns=list("abcde"))


def learn(algorithm, data, sites, *, min_cell_size=0):
    federation = Federation.split(data, sites, seed=2)
    respondents = [
        table_respondent(site.table, min_cell_size=min_cell_size, device="cpu")
        for site in federation.sites
    ]
    names = federation.sites[0].table.names
    return drive(algorithm.ask(Facts(len(names), sites, names=names)), respondents)


@pytest.mark.parametrize("score", ["auto", "bdeu", "bic"])
def test_categories_give_one_graph_however_rows_are_split(score):
    algorithm = FedBOSS(search="ges", score=score)
    (first, asked), *others = [learn(algorithm, patients(), sites) for sites in (1, 3, 10)]
    for other, questions in others:
        assert other.curve == first.curve
        assert (other.dag == first.dag).all()
        assert len(questions) == len(asked)


def test_numbers_give_one_graph_in_two_rounds_however_rows_are_split():
    outcomes = [learn(FedBOSS(search="ges"), numbers(), sites) for sites in (1, 3, 10)]
    assert all((own.dag == outcomes[0][0].dag).all() for own, _ in outcomes)
    assert all(len(asked) == 2 for _, asked in outcomes)


@pytest.mark.parametrize("own", [{"max_rounds": 1}, {"max_values": 300}, {"max_cells": 8}])
def test_it_ends_where_scores_cannot_be_had(own):
    outcome, asked = learn(FedBOSS(search="ges", **own), patients(), 3)
    assert np.isfinite(outcome.curve).all()
    assert list(outcome.curve) == sorted(outcome.curve)
    assert len(asked) <= 3 + own.get("max_rounds", 50)


@pytest.mark.parametrize("withheld", ["sites", "leave-out"])
def test_it_ends_where_tables_are_withheld(withheld):
    algorithm = FedBOSS(search="ges", withheld=withheld)
    outcome, _ = learn(algorithm, patients(), 3, min_cell_size=11)
    assert np.isfinite(outcome.curve).all()
    assert outcome.sets["sites" if withheld == "sites" else "withheld"] > 0


def test_it_takes_no_knowledge_and_says_what_it_did():
    with pytest.raises(ParameterError, match="choose boss"):
        FedBOSS(search="ges", knowledge=Knowledge(required=[("a", "b")]))
    federation = Federation.split(patients(), 3, seed=2, policy=Policy(min_cell_size=0))
    result = federation.run(FedBOSS(search="ges", bootstrap=2))
    (panel, *_) = result.report.panels
    assert panel.x_label == "phases of the search"
    assert any("phases" in note.title for note in result.report.notes)
    assert result.details["bootstrap"]["replicates"] == 2
