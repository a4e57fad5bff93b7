"""Integration of overlapping data against all graphs there are, and against the truth."""

from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from ancestral import (
    all_mags,
    directed_ancestors,
    is_ancestral,
    is_mag,
    m_separated,
    separations,
    shared,
    subsets,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from iod_peers import EXAMPLES
from oracle import OracleTest, random_dag

from cipherdag.graphs.ancestral.classes import dag_of_pag, mag_of_dag, pag_of_dag
from cipherdag.graphs.ancestral.integration import LocalPAG, integrate_pags
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL
from cipherdag.graphs.pag import PAG

UNBOUNDED = 10**6
BOUND = 400


@cache
def classes(n):
    """Every class of MAGs without undirected edges: its separations, and its PAG."""
    found = {}
    for mag in all_mags(n):
        if not any(mag[a, b] == mag[b, a] == "-" for a, b in mag):
            found.setdefault(separations(n, mag), []).append(mag)
    return {own: shared(n, mags) for own, mags in found.items()}


def within(separated, variables):
    """The separations among some variables, renumbered."""
    place = {v: k for k, v in enumerate(variables)}
    return frozenset(
        (place[x], place[y], tuple(place[v] for v in between))
        for x, y, between in separated
        if {x, y, *between} <= set(variables)
    )


def as_set(pags):
    return {own.tobytes() for own in pags}


COVERS = [
    ((0, 1), (1, 2), (2, 3)),
    ((0, 1), (0, 2), (0, 3)),
    ((0, 1, 2), (2, 3)),
    ((0, 1, 2), (1, 2, 3)),
    ((0, 1, 2), (0, 1, 3), (2, 3)),
    ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)),
    ((0, 1, 2, 3),),
]


@pytest.mark.parametrize("cover", COVERS, ids=str)
def test_all_pags_of_four_variables_that_fit_and_no_others(cover):
    """Among groups that contradict one another, too."""
    everything = classes(4)
    told = {own: tuple(within(own, group) for group in cover) for own in everything}
    rng = np.random.default_rng(0)
    choices = list(product(*({own[k]: None for own in told.values()} for k in range(len(cover)))))
    if len(choices) > 150:
        possible = sorted(set(told.values()), key=repr)
        kept = [possible[k] for k in rng.permutation(len(possible))[:120]]
        choices = kept + [choices[k] for k in rng.permutation(len(choices))[:30]]
    fitting = 0
    for chosen in choices:
        groups = [
            LocalPAG(group, classes(len(group))[own])
            for group, own in zip(cover, chosen, strict=True)
        ]
        true = {own.tobytes() for key, own in everything.items() if told[key] == chosen}
        found = integrate_pags(4, groups, most=UNBOUNDED)
        assert found.complete
        assert len(found.pags) == len(true)
        assert as_set(found.pags) == true
        fitting += len(true)
    assert fitting >= len(choices) / 2


def asked(cover):
    """Every x, y and set that some group measured all of."""
    return sorted(
        {
            (x, y, between)
            for group in cover
            for x, y in combinations(group, 2)
            for between in subsets(v for v in group if v not in (x, y))
        }
    )


def fitting_mags(n, cover, oracle):
    """By definition: every MAG with the separations of every group among its variables."""
    tests = {own: oracle.separated(*own) for own in asked(cover)}
    apart = {own[:2] for own, separated in tests.items() if separated}
    pairs = [own for own in combinations(range(n), 2) if own not in apart]
    for chosen in product([None, ("-", ">"), (">", "-"), (">", ">")], repeat=len(pairs)):
        mag = {}
        for (a, b), kind in zip(pairs, chosen, strict=True):
            if kind is not None:
                mag[b, a], mag[a, b] = kind
        if (
            is_ancestral(n, mag)
            and all(m_separated(mag, x, y, set(s)) == own for (x, y, s), own in tests.items())
            and is_mag(n, mag)
        ):
            yield mag


@pytest.mark.parametrize("cover", [((0, 1, 2, 3), (1, 2, 3, 4)), ((0, 1, 2), (2, 3, 4), (0, 4))])
def test_five_variables_against_all_graphs(cover):
    """The PAGs, and that what they share holds in every graph of theirs."""
    several = 0
    for seed in range(200):
        dag = random_dag(6, 2.2, np.random.default_rng(seed))
        oracle = OracleTest(dag)
        if len({own[:2] for own in asked(cover) if oracle.separated(*own)}) < 4:
            continue  # more than 4 ** 6 graphs
        by_class = {}
        for mag in fitting_mags(5, cover, oracle):
            by_class.setdefault(separations(5, mag), []).append(mag)
        found = integrate_pags(5, groups_of(dag, cover), most=UNBOUNDED)
        assert found.complete
        assert as_set(found.pags) == {shared(5, mags).tobytes() for mags in by_class.values()}
        assert_true_of(found.common, [mag for mags in by_class.values() for mag in mags])
        assert_true_of(found.entailed, [mag for mags in by_class.values() for mag in mags])
        several += len(by_class) > 1
        if several == 6:
            return
    raise AssertionError("too few cases were looked at")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_published_example_of_another_implementation(name):
    """All graphs by definition, of what rIOD's authors try it on, which python-fedci calls.

    The columns of the two sites are theirs, too; their script checks that the true graph is found.
    """
    edges = [(own[0], own[-1], own[2:5]) for own in EXAMPLES[name]]
    true = PAG.from_marked("ABCDE", edges).endpoints
    dag = dag_of_pag(true)
    assert (pag_of_dag(dag, range(5)) == true).all()
    cover = ((0, 2, 3, 4), (0, 1, 2, 4))
    by_class = {}
    for mag in fitting_mags(5, cover, OracleTest(dag)):
        by_class.setdefault(separations(5, mag), []).append(mag)
    found = integrate_pags(5, groups_of(dag, cover), most=UNBOUNDED)
    assert found.complete
    assert as_set(found.pags) == {shared(5, mags).tobytes() for mags in by_class.values()}
    assert true.tobytes() in as_set(found.pags)


def groups_of(dag, cover):
    return [LocalPAG(group, pag_of_dag(dag, group)) for group in cover]


def assert_true_of(marks, mags):
    """No graph has an edge that these have not, and their marks say what is so in all."""
    above = [[directed_ancestors(mag, {v}) for v in range(len(marks))] for mag in mags]
    assert all(marks[end] != NONE for mag in mags for end in mag)
    for a, b in np.argwhere(marks == ARROW).tolist():
        assert not any(b in own[a] for own in above)
    for a, b in np.argwhere(marks == TAIL).tolist():
        assert all(b in own[a] for own in above)


def overlapping(seed):
    """A DAG of which some variables nobody measured, and two or three sets of the others."""
    rng = np.random.default_rng(seed)
    observed, hidden = int(rng.integers(5, 8)), int(rng.integers(0, 3))
    dag = random_dag(observed + hidden, float(rng.uniform(1.0, 2.5)), rng)
    cover = []
    for _ in range(int(rng.integers(2, 4))):
        less = rng.permutation(observed)[: rng.integers(1, 3)]
        cover.append(tuple(v for v in range(observed) if v not in less))
    return dag, observed, cover


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_truth_is_always_among_them(seed):
    dag, observed, cover = overlapping(seed)
    true = pag_of_dag(dag, range(observed))
    found = integrate_pags(observed, groups_of(dag, cover), most=BOUND)
    mag, _ = mag_of_dag(dag, range(observed))
    signs = {ARROW: ">", TAIL: "-"}
    ends = {(a, b): signs[int(mag[a, b])] for a, b in np.argwhere(mag).tolist()}
    assert_true_of(found.common, [ends])
    assert_true_of(found.entailed, [ends])
    if found.complete:
        assert true.tobytes() in as_set(found.pags)
    else:
        assert found.looked_at == BOUND
        assert (found.common == found.entailed).all()


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_order_of_variables_and_groups_is_nothing_to_it(seed):
    dag, observed, cover = overlapping(seed)
    found = integrate_pags(observed, groups_of(dag, cover), most=BOUND)
    rng = np.random.default_rng(seed)
    order = [*rng.permutation(observed).tolist(), *range(observed, len(dag))]
    place = {v: k for k, v in enumerate(order)}
    moved = [tuple(sorted(place[v] for v in group)) for group in reversed(cover)]
    other = integrate_pags(observed, groups_of(dag[np.ix_(order, order)], moved), most=BOUND)
    own = np.ix_(order[:observed], order[:observed])
    assert (found.entailed[own] == other.entailed).all()
    if found.complete and other.complete:
        assert {marks[own].tobytes() for marks in found.pags} == as_set(other.pags)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(0, 40))
def test_a_search_that_ends_early_says_so_and_has_nothing_wrong(seed, most):
    dag, observed, cover = overlapping(seed)
    heard = []
    short = integrate_pags(
        observed, groups_of(dag, cover), most=most, progress=lambda *own: heard.append(own)
    )
    assert short.looked_at == len(heard) <= most
    assert [own[0] for own in heard] == list(range(1, len(heard) + 1))
    whole = integrate_pags(observed, groups_of(dag, cover), most=BOUND)
    if whole.complete:
        assert short.complete == (whole.looked_at <= most)
        assert as_set(short.pags) <= as_set(whole.pags)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_what_was_measured_together_is_the_only_one(seed):
    dag, observed, cover = overlapping(seed)
    everything = tuple(range(observed))
    found = integrate_pags(observed, groups_of(dag, [*cover, everything]), most=BOUND)
    assert found.complete
    assert as_set(found.pags) == {pag_of_dag(dag, everything).tobytes()}
    assert (found.common == found.pags[0]).all()


def local_of(pag):
    return LocalPAG(tuple(map(int, pag.nodes)), pag.endpoints.copy())


def test_groups_that_contradict_one_another_fit_nothing():
    """2 is a cause of 5 where 1 and 4 are measured, and the other way round, or neither, elsewhere.

    Endpoints that some group has and none gainsays stay.
    """
    first = PAG.from_marked("0123", [("0", "1", "o->"), ("3", "1", "o->"), ("1", "2", "-->")])
    second = PAG.from_marked("1245", [("4", "2", "o->"), ("1", "2", "o->"), ("2", "5", "-->")])
    third = PAG.from_marked("125", [("1", "2", "o->"), ("5", "2", "o->")])
    groups = [local_of(own) for own in (first, second, third)]
    found = integrate_pags(6, groups, most=UNBOUNDED)
    assert found.complete
    assert not found.pags
    assert (found.common == found.entailed).all()
    assert found.entailed[0, 1] == found.entailed[1, 2] == ARROW
    assert found.entailed[2, 1] == TAIL
    assert found.entailed[5, 2] == CIRCLE  # a cause here, none there
    assert found.entailed[2, 5] == ARROW
    no_pag = LocalPAG((0, 1, 2), np.array([[0, 2, 0], [3, 0, 1], [0, 1, 0]], dtype=np.int8))
    alone = integrate_pags(3, [no_pag], most=UNBOUNDED)
    assert (alone.pags, alone.complete, alone.looked_at) == ((), True, 0)


def test_a_dag_stands_behind_every_pag_and_behind_nothing_else():
    pags = {own.tobytes() for own in classes(3).values()}
    ends = list(product((CIRCLE, ARROW, TAIL), repeat=2))
    behind = 0
    for chosen in product([(NONE, NONE), *ends], repeat=3):
        marks = np.zeros((3, 3), dtype=np.int8)
        for (a, b), kind in zip(combinations(range(3), 2), chosen, strict=True):
            marks[b, a], marks[a, b] = kind
        arcs = dag_of_pag(marks)
        assert (arcs is not None) == (marks.tobytes() in pags)
        behind += arcs is not None
        assert arcs is None or (pag_of_dag(arcs, range(3)) == marks).all()
    assert behind == len(pags)
    assert all(dag_of_pag(own) is not None for own in classes(4).values())
