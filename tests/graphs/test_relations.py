"""What follows from declared relations: against sets grown one by one, whatever is declared."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.graphs.relations import FORMS, Determined, Relation

P = 6
relations = st.builds(
    Relation,
    st.sampled_from(FORMS),
    st.lists(st.integers(0, P - 1), min_size=2, max_size=4, unique=True).map(tuple),
)
declared = st.lists(relations, max_size=4).map(lambda own: Determined(tuple(own)))


def grown(determined, known):
    """Everything that a set determines, itself among it."""
    known = {*known}
    for _ in range(P):
        for relation in determined.relations:
            for target, by in relation.rules:
                if {*by} <= known:
                    known.add(target)
    return known


@given(declared, st.integers(0, 4))
def test_tests_are_undone_where_the_set_determines_an_end(determined, size):
    rows = np.array(
        [
            (x, y, *given)
            for x, y in combinations(range(P), 2)
            for given in combinations(sorted({*range(P)} - {x, y}), size)
        ],
        dtype=np.int64,
    )
    right = [bool({x, y} & grown(determined, own)) for x, y, *own in rows.tolist()]
    assert determined.undone(rows).tolist() == right
    assert determined.undone(rows[:, [1, 0, *range(2, 2 + size)]]).tolist() == right
    for (x, _, *own), undone in zip(rows.tolist(), right, strict=True):
        assert not determined.follows(x, own) or undone


@given(declared)
def test_nothing_is_undone_given_nothing(determined):
    pairs = np.array(list(combinations(range(P), 2)), dtype=np.int64)
    assert not determined.undone(pairs).any()


@given(declared, st.integers(0, 2**32 - 1))
def test_edges_without_direction_are_some_of_the_edges_both_ways(determined, seed):
    edges = np.triu(np.random.default_rng(seed).random((P, P)) < 0.5, k=1)
    edges = edges | edges.T
    for by_scores in (False, True):
        found = determined.without_direction(edges, by_scores=by_scores)
        assert (found == found.T).all()
        assert not (found & ~edges).any()
    written = {v for own in determined.relations if own.one_variable for v in own.columns}
    assert {*np.argwhere(found)[:, 0].tolist()} <= {*range(P)}
    assert all({int(x), int(y)} & written for x, y in np.argwhere(found))


@given(relations)
def test_a_relation_by_name_and_back_is_the_same(relation):
    names = [f"n{v}" for v in range(P)]
    by_name = relation.named(names)
    assert by_name.over({name: v for v, name in enumerate(names)}) == relation
    assert all(name in by_name.in_words() for name in by_name.columns)
