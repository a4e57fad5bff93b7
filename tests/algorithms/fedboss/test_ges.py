"""The deletions of FedBOSS's search, against all DAGs of all classes, and knowledge."""

from functools import cache

import numpy as np
import pytest
from driving import outcome_of
from hypothesis import given, settings
from hypothesis import strategies as st
from regretting import every_dag, linear_data, linear_model

from cipherdag import FedBOSS, Federation, Knowledge, Policy
from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees, after_deletions
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.graphs.dags import matrix_of, members
from cipherdag.graphs.equivalence import member, moves_into, pattern_of
from cipherdag.graphs.networks import asia


def scores_of(p, seed, rows):
    dag, weights = linear_model(p, seed)
    data = linear_data(dag, weights, rows, np.random.default_rng(seed))
    own = np.corrcoef(data, rowvar=False)
    return MomentScores(own, rows, penalty=1.0, max_parents=p), data


def trees_of(scores, forbidden=None, required=None):
    nothing = [0] * scores.n_variables
    return GrowShrinkTrees(scores, forbidden or nothing, required or nothing)


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


def one_edge_less(dag):
    """Signatures of all classes that one DAG of this one's class leads to without one edge."""
    reached = set()
    for own in classes(len(dag))[signature(dag)]:
        for v, parents in enumerate(own):
            for u in members(parents):
                other = list(own)
                other[v] ^= 1 << u
                reached.add(signature(tuple(other)))
    return reached


def holds(dag, forbidden, required):
    return not any(own & never for own, never in zip(dag, forbidden, strict=True)) and not any(
        must & ~own for own, must in zip(dag, required, strict=True)
    )


def by_enumeration(scores, dag, forbidden, required):
    """The deletions in the plainest way: of all classes with one edge less the best."""
    able = {
        own
        for own, dags in classes(len(dag)).items()
        if any(holds(g, forbidden, required) for g in dags)
    }
    while near := one_edge_less(dag) & able:
        best = max(near, key=lambda own: total(scores, classes(len(dag))[own][0]))
        other = classes(len(dag))[best][0]
        if total(scores, other) - total(scores, dag) < scores.least:
            break
        dag = other
    return dag


@pytest.mark.parametrize("seed", range(20))
def test_deletions_end_in_the_class_that_enumeration_finds(seed):
    scores, _ = scores_of(4, seed, rows=60 + 40 * seed)
    nothing, full = [0] * 4, (0, 1, 3, 7)
    found = outcome_of(after_deletions(full, trees_of(scores)))
    assert signature(found) == signature(by_enumeration(scores, full, nothing, nothing))


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
def test_a_graph_that_knowledge_permits_is_found_if_there_is_one(seed):
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
def test_deletions_with_knowledge_end_where_enumeration_ends(seed):
    forbidden, required = drawn_knowledge(4, np.random.default_rng(seed))
    scores, _ = scores_of(4, seed, rows=60 + 40 * seed)
    start = next(dag for dag in every_dag(4)[::-1] if holds(dag, forbidden, required))
    found = outcome_of(after_deletions(start, trees_of(scores, forbidden, required)))
    assert holds(found, forbidden, required)
    assert signature(found) == signature(by_enumeration(scores, start, forbidden, required))


@cache
def patients(rows=3000):
    return asia().sample(rows, np.random.default_rng(1))


@pytest.mark.parametrize("within", [False, True])
def test_knowledge_holds_whatever_the_data_say(within):
    known = Knowledge(
        tiers=(("VisitToAsia", "Smoking"), ("LungCancer", "Dyspnoea")),
        required=(("LungCancer", "VisitToAsia2"),),
        forbidden=(("Smoking", "Bronchitis"), ("Bronchitis", "Smoking")),
    )
    data = patients().assign(VisitToAsia2=patients()["VisitToAsia"])
    federation = Federation.split(data, 3, seed=2, policy=Policy(min_cell_size=0))
    graph = federation.run(
        FedBOSS(reveal="sums", within_sites=within, knowledge=known),
        seed=1,
    ).finding.graph
    joined = {frozenset((edge.source, edge.target)) for edge in graph.edges}
    assert ("LungCancer", "VisitToAsia2") in graph.directed
    assert frozenset(("Smoking", "Bronchitis")) not in joined
    assert ("Smoking", "LungCancer") in graph.directed


def test_forty_neighbours_have_as_many_moves_as_their_cliques():
    leaves = 40
    star = (0, *[1] * leaves)  # the hub is the parent of all
    pattern = pattern_of(star)
    assert pattern.neighbours[0] == (1 << leaves + 1) - 2
    # of every edge: nothing else is adjacent to both ends
    assert sum(1 for _ in moves_into(pattern, "delete", 0)) == leaves
    # together with none or one of the other neighbours
    assert sum(1 for _ in moves_into(pattern, "turn", 0)) == leaves * leaves
