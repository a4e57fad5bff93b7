"""Graphs that stand for classes of DAGs: only those can be built; all DAGs are gone through."""

import numpy as np
import pytest
from enumeration import any_graph, arcs_of, colliders_of, every_extension, is_cyclic, small_dag
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import GraphError
from cipherdag.graphs.graph import CPDAG, MPDAG, CausalGraph, class_of_dags
from cipherdag.graphs.knowledge import Constraints, Knowledge
from cipherdag.graphs.orientation import class_of, cpdag_of

seeds = st.integers(0, 2**32 - 1)
NAMES = "abcdefgh"


def is_maximal(arcs):
    """Whether the arcs are what all DAGs of the class have in common, by going through them."""
    dags = list(every_extension(arcs))
    return bool(dags) and (np.logical_or.reduce(dags) == arcs).all()


def is_completed(arcs):
    """Whether the arcs are what all Markov equivalent DAGs have in common."""
    dags = list(every_extension(arcs))
    if not dags:
        return False
    pattern = arcs | arcs.T
    for x, y, z in colliders_of(dags[0]):
        pattern[y, x] = pattern[y, z] = False
    return (np.logical_or.reduce(list(every_extension(pattern))) == arcs).all()


def made(own, arcs):
    try:
        return own.from_arcs(NAMES[: len(arcs)], arcs)
    except GraphError:
        return None


@given(seeds)
def test_only_classes_of_dags_can_be_built(seed):
    arcs, _ = any_graph(seed, largest=4)
    assert (made(MPDAG, arcs) is not None) == is_maximal(arcs)
    assert (made(CPDAG, arcs) is not None) == is_completed(arcs)


@given(seeds)
def test_classes_of_dags_can_be_built_and_are_told_apart(seed):
    dag, rng = small_dag(seed)
    names = NAMES[: len(dag)]
    graph = CausalGraph.from_arcs(names, dag).to_cpdag()
    assert type(graph) is CPDAG
    assert graph.kind == "cpdag"
    known = [(names[i], names[j]) for i, j in np.argwhere(dag) if rng.random() < 0.5]
    further = graph.with_knowledge(Knowledge(required=tuple(known)))
    assert type(further) is MPDAG
    kind = CPDAG if further == graph else MPDAG
    assert type(class_of_dags(names, further.arcs)) is kind
    for own in (graph, further):
        again = CausalGraph.loads(own.dumps())
        assert type(again) is type(own)
        assert again == own


@pytest.mark.parametrize(
    ("text", "own", "message"),
    [
        ("a>b b>c c>a", CPDAG, "cycle: 'a' --> 'b' --> 'c' --> 'a'"),
        ("a>b b>c c>a", MPDAG, "cycle: 'a' --> 'b' --> 'c' --> 'a'"),
        ("a-b b-c c-d d-a", CPDAG, "no DAG has this graph's edges"),
        ("a>b b-c", MPDAG, "undirected that the others direct: 'b' --> 'c'"),
        ("a>b", CPDAG, "some DAG of the class turns round: 'a' --> 'b'"),
    ],
)
def test_what_is_none_is_refused_by_name(text, own, message):
    arcs = arcs_of(text)
    with pytest.raises(GraphError, match=message):
        own.from_arcs(NAMES[: len(arcs)], arcs)


def test_a_file_that_claims_too_much_is_refused():
    text = CausalGraph.from_edges("ab", directed=[("a", "b")]).dumps()
    assert CausalGraph.loads(text).kind == "dag"
    with pytest.raises(GraphError, match="turns round"):
        CausalGraph.loads(text.replace('"dag"', '"cpdag"'))


# from answers that contradict each other


def contradictory(seed, largest=6):
    """A skeleton, and triples of it that are said to be colliders, whatever the others say."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, largest + 1))
    upper = np.triu(rng.random((p, p)) < rng.uniform(0.2, 0.9), k=1)
    skeleton = upper | upper.T
    triples = [
        (x, y, z)
        for x, z in np.argwhere(np.triu(~skeleton, k=1)).tolist()
        for y in np.flatnonzero(skeleton[x] & skeleton[z]).tolist()
    ]
    said = [own for own in triples if rng.random() < 0.5]
    rest = [own for own in triples if own not in said and rng.random() < 0.3]
    return skeleton, said, rest, {own: float(rng.random()) for own in said}, rng


def random_knowledge(skeleton, rng):
    """Required and forbidden edges that do not contradict each other, maybe the skeleton."""
    p = len(skeleton)
    order = rng.permutation(p)
    required = np.zeros((p, p), dtype=bool)
    for i, j in np.argwhere(skeleton).tolist():
        required[i, j] = order[i] < order[j] and rng.random() < 0.2
    forbidden = (rng.random((p, p)) < 0.2) & ~required & ~required.T & ~np.eye(p, dtype=bool)
    return Constraints(forbidden | required.T, required)


@given(seeds)
def test_contradictory_answers_give_a_class_of_dags(seed):
    skeleton, said, rest, strength, _ = contradictory(seed)
    none = Constraints.none(len(skeleton))
    found = class_of(skeleton, said, none, open_triples=rest, strength=strength)
    assert (found.arcs == cpdag_of(found.dag)).all()
    assert (found.arcs | found.arcs.T == skeleton).all()
    CPDAG.from_arcs(NAMES[: len(skeleton)], found.arcs)
    have = colliders_of(found.dag)
    assert set(found.set_aside) == set(said) - have
    assert set(found.forced) == have - set(said)
    if said:
        strongest = max(said, key=strength.get)
        assert strongest in have


@given(seeds)
def test_what_is_known_holds_in_the_class_and_in_its_dag(seed):
    skeleton, said, rest, strength, rng = contradictory(seed)
    known = random_knowledge(skeleton, rng)
    skeleton = (skeleton & ~known.excluded) | known.joined
    said = [own for own in said if skeleton[own[0], own[1]] and skeleton[own[2], own[1]]]
    said = [own for own in said if not skeleton[own[0], own[2]]]
    found = class_of(skeleton, said, known, open_triples=rest, strength=strength)
    assert not is_cyclic(found.dag)
    for own in (found.dag, found.arcs):
        assert not (own & known.forbidden).any()
        assert not (known.required & ~own).any()
    left = found.arcs | found.arcs.T
    dropped = {tuple(own) for own in np.argwhere(np.triu(skeleton & ~left)).tolist()}
    assert set(found.dropped) == dropped
    class_of_dags(NAMES[: len(skeleton)], found.arcs)
    assert not (found.dag & ~found.arcs).any()


def test_equal_evidence_is_decided_without_the_order_of_the_variables():
    """x -> y <- z and y -> z <- w are as clear: which is taken does not follow the positions."""
    skeleton = arcs_of("a-b b-c c-d")
    both = {(0, 1, 2): 2.0, (1, 2, 3): 2.0}
    turned = skeleton[::-1, ::-1]
    none = Constraints.none(4)
    standing = np.array([0.3, 0.1, 0.2, 0.4])
    one = class_of(skeleton, list(both), none, strength=both, tie_break=standing)
    other = class_of(turned, list(both), none, strength=both, tie_break=standing[::-1])
    assert (one.arcs == other.arcs[::-1, ::-1]).all()
    assert len(one.set_aside) == 1


def test_a_long_cycle_of_colliders_is_cut_at_the_weakest():
    """Nine variables in a circle, each a collider of its neighbours' pendants: arrows go round."""
    k = 9
    p = 2 * k
    skeleton = np.zeros((p, p), dtype=bool)
    for v in range(k):
        for w in ((v + 1) % k, k + v):
            skeleton[v, w] = skeleton[w, v] = True
    triples = {}
    for v in range(k):
        before, pendant = (v - 1) % k, k + v
        triples[before, v, pendant] = 10.0 + v
    found = class_of(skeleton, list(triples), Constraints.none(p), strength=triples)
    assert found.set_aside == (min(triples, key=triples.get),)
    CPDAG.from_arcs([f"v{v}" for v in range(p)], found.arcs)
