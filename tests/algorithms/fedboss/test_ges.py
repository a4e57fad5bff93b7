"""FedBOSS's greedy equivalence search: every step against all DAGs of all classes, and oracles."""

from functools import cache

import numpy as np
import pytest
from driving import drive
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import random_dag
from regretting import every_dag, linear_data

from cipherdag import FedBOSS, Federation, Knowledge, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedboss.equivalence_search import after_phase, greedy
from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.graphs.dags import ancestors, dag_of, empty_dag, matrix_of, members, turned
from cipherdag.graphs.equivalence import member, moves_into, pattern_of
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.answers.site_view import SiteView


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


def trees_of(scores, forbidden=None, required=None):
    nothing = [0] * scores.n_variables
    return GrowShrinkTrees(scores, forbidden or nothing, required or nothing)


def searched(scores, forbidden=None, required=None):
    start = tuple(required or [0] * scores.n_variables)
    return ended(greedy(start, trees_of(scores, forbidden, required)))


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


def holds(dag, forbidden, required):
    return not any(own & never for own, never in zip(dag, forbidden, strict=True)) and not any(
        must & ~own for own, must in zip(dag, required, strict=True)
    )


def by_enumeration(scores, forbidden, required):
    """GES in the plainest way: of all classes one edge away the best, phase by phase."""
    dag, p = tuple(required), scores.n_variables
    able = {
        own for own, dags in classes(p).items() if any(holds(g, forbidden, required) for g in dags)
    }
    idle = 0
    while idle < 3:
        for phase in ("insert", "delete", "turn"):
            idle += 1
            while near := one_edge_away(dag, phase) & able:
                best = max(near, key=lambda own: total(scores, classes(len(dag))[own][0]))
                other = classes(len(dag))[best][0]
                if total(scores, other) - total(scores, dag) < scores.least:
                    break
                dag, idle = other, 0
    return dag


@pytest.mark.parametrize("seed", range(20))
def test_it_ends_in_the_class_that_enumeration_of_all_classes_ends_in(seed):
    scores, _ = scores_of(4, seed, rows=60 + 40 * seed)
    found = searched(scores)
    assert signature(found.dag) == signature(by_enumeration(scores, [0] * 4, [0] * 4))
    # every gain was of the class: its graphs score alike, to the rounding of families
    assert found.curve[-1] == pytest.approx(total(scores, found.dag), abs=40)
    assert list(found.curve) == sorted(found.curve)


def drawn_knowledge(p, rng):
    """Some forbidden and up to two required edges, which contradict nothing; bit masks."""
    required, forbidden = [0] * p, [0] * p
    order = rng.permutation(p).tolist()
    for _ in range(int(rng.integers(3))):
        u, v = sorted(rng.choice(p, 2, replace=False).tolist(), key=order.index)
        required[v] |= 1 << u
        forbidden[u] |= 1 << v
    for u, v in np.argwhere(rng.random((p, p)) < 0.2).tolist():
        if u != v and not required[v] >> u & 1:
            forbidden[v] |= 1 << u
    return forbidden, required


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=200)
def test_of_every_class_a_graph_that_knowledge_permits_is_found_if_there_is_one(seed):
    rng = np.random.default_rng(seed)
    forbidden, required = drawn_knowledge(4, rng)
    dags = [*classes(4).values()][int(rng.integers(len(classes(4))))]
    found = member(pattern_of(dags[0]), forbidden)
    able = [own for own in dags if holds(own, forbidden, [0] * 4)]
    assert found in able if able else found is None
    scores, _ = scores_of(4, 0, 50)
    kept = trees_of(scores, forbidden, required).permitted(dags[-1])
    # required edges are forbidden the other way round, so all of the permitted graphs have them
    able = [own for own in able if holds(own, forbidden, required)]
    assert kept in able if able else kept is None


@pytest.mark.parametrize("seed", range(20))
def test_with_knowledge_it_ends_where_enumeration_of_permitted_classes_ends(seed):
    forbidden, required = drawn_knowledge(4, np.random.default_rng(seed))
    scores, _ = scores_of(4, seed, rows=60 + 40 * seed)
    found = searched(scores, forbidden, required)
    assert holds(found.dag, forbidden, required)
    assert signature(found.dag) == signature(by_enumeration(scores, forbidden, required))


@pytest.mark.parametrize("seed", range(12))
def test_with_exact_correlations_it_finds_the_class_of_the_truth(seed):
    dag, weights = model(9, seed)
    through = np.linalg.inv(np.eye(9) - np.where(matrix_of(dag), weights, 0.0))
    covariance = through.T @ through
    scale = np.sqrt(covariance.diagonal())
    exact = covariance / np.outer(scale, scale)
    scores = MomentScores(exact, 10**7, penalty=1.0, max_parents=8)
    truth = cpdag_of(matrix_of(dag))
    assert (cpdag_of(matrix_of(searched(scores).dag)) == truth).all()
    # knowledge that is true takes nothing away
    later = ancestors(tuple(turned(dag)))
    required = [own & -own for own in dag]
    found = searched(scores, later, required)
    assert holds(found.dag, later, required)
    assert (cpdag_of(matrix_of(found.dag)) == truth).all()


@pytest.mark.parametrize("seed", range(6))
def test_insertions_and_deletions_end_where_causal_learn_ends(seed):
    from causallearn.search.ScoreBased.GES import ges

    scores, data = scores_of(7, seed, rows=400)
    trees = trees_of(scores)
    grown, _ = ended(after_phase(empty_dag(7), trees, "insert"))
    own, _ = ended(after_phase(grown, trees, "delete"))
    # its score takes ln(n) lambda per parent: half as much as ours has for a factor
    found = ges(data, "local_score_BIC", lambda_value=0.5)["G"].graph
    theirs = (found.T == 1) | ((found == -1) & (found.T == -1))
    assert (theirs == cpdag_of(matrix_of(own))).all()


@cache
def patients(rows=3000):
    return asia().sample(rows, np.random.default_rng(1))


def learn(algorithm, data, sites, *, min_cell_size=0):
    federation = Federation.split(data, sites, seed=2)
    respondents = [
        SiteView.of_table(site.table, min_cell_size=min_cell_size, device="cpu")
        for site in federation.sites
    ]
    names = federation.sites[0].table.names
    return drive(algorithm.ask(Facts(len(names), sites, names=names)), respondents)


@pytest.mark.parametrize("own", [{"max_rounds": 1}, {"max_values": 300}, {"max_cells": 8}])
def test_it_ends_where_scores_cannot_be_had(own):
    outcome, asked = learn(FedBOSS(search="ges", within_sites=False, **own), patients(), 3)
    assert np.isfinite(outcome.curve).all()
    assert list(outcome.curve) == sorted(outcome.curve)
    assert len(asked) <= 3 + own.get("max_rounds", 50)


@pytest.mark.parametrize("withheld", ["sites", "leave-out"])
def test_it_ends_where_tables_are_withheld(withheld):
    algorithm = FedBOSS(search="ges", withheld=withheld, within_sites=False)
    outcome, _ = learn(algorithm, patients(), 3, min_cell_size=11)
    assert np.isfinite(outcome.curve).all()
    assert outcome.sets["sites" if withheld == "sites" else "withheld"] > 0


@pytest.mark.parametrize("search", ["ges", "boss"])
@pytest.mark.parametrize("scores", ["pooled", "sites"])
def test_knowledge_holds_whatever_the_data_say(search, scores):
    known = Knowledge(
        tiers=(("VisitToAsia", "Smoking"), ("LungCancer", "Dyspnoea")),
        required=(("LungCancer", "VisitToAsia2"),),
        forbidden=(("Smoking", "Bronchitis"), ("Bronchitis", "Smoking")),
    )
    data = patients().assign(VisitToAsia2=patients()["VisitToAsia"])
    federation = Federation.split(data, 3, seed=2, policy=Policy(min_cell_size=0))
    graph = federation.run(
        FedBOSS(
            search=search,
            scores=scores,
            within_sites=scores == "sites",
            knowledge=known,
            restarts=5,
        ),
        seed=1,
    ).finding.graph
    joined = {frozenset((edge.source, edge.target)) for edge in graph.edges}
    assert ("LungCancer", "VisitToAsia2") in graph.directed
    assert frozenset(("Smoking", "Bronchitis")) not in joined
    assert ("Smoking", "LungCancer") in graph.directed


def test_the_report_says_what_it_did():
    federation = Federation.split(patients(), 3, seed=2, policy=Policy(min_cell_size=0))
    result = federation.run(FedBOSS(search="ges", bootstrap=2))
    (panel, *_) = result.report.panels
    assert panel.x_label == "phases of the search"
    assert any("phases" in note.title for note in result.report.notes)
    assert result.finding.details["bootstrap"]["replicates"] == 2


def test_a_variable_with_forty_neighbours_has_as_many_moves_as_their_cliques():
    leaves = 40
    star = (0, *[1] * leaves)  # the hub is the parent of all
    pattern = pattern_of(star)
    assert pattern.neighbours[0] == (1 << leaves + 1) - 2
    # of every edge: nothing else is adjacent to both ends
    assert sum(1 for _ in moves_into(pattern, "delete", 0)) == leaves
    # together with none or one of the other neighbours
    assert sum(1 for _ in moves_into(pattern, "turn", 0)) == leaves * leaves
