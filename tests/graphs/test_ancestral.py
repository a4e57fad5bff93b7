"""The rules of FCI against the definition: what all equivalent maximal ancestral graphs share."""

from contextlib import redirect_stdout
from io import StringIO
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from ancestral import (
    NUMBERS,
    all_mags,
    anteriors,
    equivalent,
    is_mag,
    mag_of,
    separations,
    shared,
    varied,
)
from causallearn.search.ConstraintBased.FCI import fci
from causallearn.utils.cit import d_separation
from hypothesis import given
from hypothesis import strategies as st
from oracle import OracleTest, random_dag

from cipherdag.errors import GraphError
from cipherdag.graphs.ancestral.classes import mag_of_dag, pag_of_dag
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.ancestral.paths import blocks_of, possible_d_sep
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL, circles
from cipherdag.graphs.orientation import colliders_by_sepset

LETTERS = {1: "o", 2: ">", 3: "-"}


def sepsets_of(n, mag):
    return {
        (x, y): frozenset(anteriors(mag, {x, y}) - {x, y})
        for x, y in combinations(range(n), 2)
        if (x, y) not in mag
    }


def learnt(n, mag, *, selection):
    """The PAG from the skeleton of a MAG and its own separating sets."""
    skeleton = np.zeros((n, n), dtype=bool)
    for end in mag:
        skeleton[end] = True
    sepsets = sepsets_of(n, mag)
    marks = with_colliders(circles(skeleton), colliders_by_sepset(skeleton, sepsets))
    return apply_zhang_rules(marks, Grounds(sepsets=sepsets), selection=selection)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_all_graphs_of_up_to_four_variables(n):
    classes = {}
    for mag in all_mags(n):
        classes.setdefault(separations(n, mag), []).append(mag)
    for mags in classes.values():
        assert (learnt(n, mags[0], selection=True) == shared(n, mags)).all()
        plain = [m for m in mags if not any(m[a, b] == m[b, a] == "-" for a, b in m)]
        if plain:
            assert (learnt(n, plain[0], selection=False) == shared(n, plain)).all()


def random_case(seed):
    """A DAG, its hidden and its selection variables, and whether it has any of the latter."""
    rng = np.random.default_rng(seed)
    observed, hidden = int(rng.integers(6, 13)), int(rng.integers(1, 5))
    selected = int(rng.integers(0, 3)) if seed % 2 else 0
    dag = random_dag(observed + hidden + selected, float(rng.uniform(1.5, 2.7)), rng)
    order = rng.permutation(len(dag)).tolist()
    return dag, order[:hidden], order[hidden : hidden + selected]


def graph_with(marks, sepsets, end, mark, *, selection):
    """A graph without circles that has one mark more than a PAG, made as Zhang's theorem 2 has it.

    Nothing says that it is a MAG of the class: that is for the definition to say.
    """
    found = marks.copy()
    found[end] = mark
    while True:
        found = apply_zhang_rules(found, Grounds(sepsets), selection=selection)
        half = (found == ARROW) & (found.T == CIRCLE)
        found[half.T] = TAIL
        if (half_tail := (found == CIRCLE) & (found.T == TAIL)).any():
            found[half_tail] = ARROW
        if not (found == CIRCLE).any():
            return {(a, b): LETTERS[int(found[a, b])] for a, b in np.argwhere(found).tolist()}
        a, b = np.argwhere(found == CIRCLE)[0].tolist()
        found[a, b], found[b, a] = ARROW, TAIL


@pytest.mark.parametrize("block", range(2))
def test_random_graphs_with_hidden_and_selection_variables(block):
    """Every mark is the MAG's, and every circle is another mark in some equivalent MAG."""
    looked_at = doubted = 0
    for seed in range(50 * block, 50 * (block + 1)):
        dag, hidden, selected = random_case(seed)
        mag = mag_of(dag, hidden, selected)
        n, selection = len(dag) - len(hidden) - len(selected), bool(selected)
        found = learnt(n, mag, selection=selection)
        told = {end for end in mag if found[end] != CIRCLE}
        assert all(found[end] == NUMBERS[mag[end]] for end in told)
        open_ends = set(mag) - told
        seen, others = set(), []
        for end in open_ends:
            for mark in {TAIL, ARROW} - {NUMBERS[mag[end]]}:
                other = graph_with(found, sepsets_of(n, mag), end, mark, selection=selection)
                if other[end] != mag[end] and is_mag(n, other) and equivalent(n, mag, other):
                    seen.add(end)
                    others.append(other)
        left = open_ends - seen
        seen |= varied(n, mag, left, selection=selection, others=others, most=500)
        assert not seen & told
        looked_at += len(open_ends)
        doubted += len(open_ends - seen)
    assert looked_at > 300
    assert doubted <= 0.02 * looked_at  # the walk over a large class of a dense graph ends early


def test_the_projection_of_a_dag_is_the_one_by_inducing_paths():
    for seed in range(60):
        dag, hidden, selected = random_case(seed)
        measured = [v for v in range(len(dag)) if v not in hidden and v not in selected]
        mag = mag_of(dag, hidden, selected)
        marks, _ = mag_of_dag(dag, measured, selected)
        assert {end: NUMBERS[mark] for end, mark in mag.items()} == {
            end: int(marks[end]) for end in map(tuple, np.argwhere(marks).tolist())
        }
        own = learnt(len(measured), mag, selection=bool(selected))
        assert (pag_of_dag(dag, measured, selected) == own).all()


def causal_learns(dag, observed):
    """The PAG of causal-learn's FCI with a d-separation oracle, whose observed variables are first.

    It counts 2 for an arrowhead and -1 for a tail, at [j, i] for the end at j of i and j.
    """
    truth = nx.DiGraph(np.argwhere(dag).tolist())
    truth.add_nodes_from(range(len(dag)))
    with redirect_stdout(StringIO()):
        graph, _ = fci(
            np.zeros((observed + 1, observed)), d_separation, true_dag=truth, show_progress=False
        )
    signs = np.asarray(graph.graph).T
    return np.select([signs == 2, signs == 1, signs == -1], [CIRCLE, ARROW, TAIL], NONE)


def test_causal_learn_agrees_but_for_marks_that_it_misses():
    """Where the two differ the definition decides: no equivalent MAG has another mark there."""
    missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        observed, hidden = int(rng.integers(5, 9)), int(rng.integers(1, 4))
        dag = random_dag(observed + hidden, 2.5, rng)
        mag = mag_of(dag, range(observed, observed + hidden))
        own, other = learnt(observed, mag, selection=True), causal_learns(dag, observed)
        differ = set(map(tuple, np.argwhere(own != other).tolist()))
        assert all(other[end] == CIRCLE and own[end] == NUMBERS[mag[end]] for end in differ)
        assert not differ & varied(observed, mag, differ, selection=True, most=300)
        missed += len(differ)
    assert missed > 0


def relabelled(matrix, order):
    return matrix[np.ix_(order, order)]


@given(st.integers(0, 10**6))
def test_marks_do_not_depend_on_the_order_of_variables_with_errors(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    skeleton = np.triu(rng.random((n, n)) < 0.5, k=1)
    skeleton |= skeleton.T
    sepsets = {
        (x, z): frozenset(v for v in range(n) if v not in (x, z) and rng.random() < 0.3)
        for x, z in combinations(range(n), 2)
    }
    order = rng.permutation(n)
    place = np.argsort(order)
    moved = {
        (min(place[x], place[z]), max(place[x], place[z])): frozenset(place[list(own)].tolist())
        for (x, z), own in sepsets.items()
    }
    found = []
    for own, sets in ((skeleton, sepsets), (relabelled(skeleton, order), moved)):
        marks = with_colliders(circles(own), colliders_by_sepset(own, sets))
        done = apply_zhang_rules(marks, Grounds(sets))
        assert ((done > 0) == own).all()
        assert (apply_zhang_rules(done, Grounds(sets)) == done).all()
        assert (done[marks != CIRCLE] == marks[marks != CIRCLE]).all()
        found.append(done)
    assert (relabelled(found[0], order) == found[1]).all()


def test_a_triple_that_is_open_directs_nothing():
    arrow_into_b = np.array([[0, 2, 0], [1, 0, 1], [0, 1, 0]], dtype=np.int8)  # a o-> b o-o c
    sepsets = {(0, 2): frozenset({1})}
    assert apply_zhang_rules(arrow_into_b, Grounds(sepsets))[1, 2] == ARROW
    held = apply_zhang_rules(arrow_into_b, Grounds(sepsets, ambiguous={(0, 1, 2)}))
    assert (held == arrow_into_b).all()


def test_a_discriminating_path_needs_the_separating_set_of_its_ends():
    # t *-> a <-> b o-* c, a --> c: t and c are not adjacent
    marks = np.zeros((4, 4), dtype=np.int8)
    for (i, j), (at_i, at_j) in {
        (0, 1): (CIRCLE, ARROW),
        (1, 2): (ARROW, CIRCLE),
        (1, 3): (TAIL, ARROW),
        (2, 3): (CIRCLE, CIRCLE),
    }.items():
        marks[j, i], marks[i, j] = at_i, at_j
    with pytest.raises(GraphError, match=r"separating set .* \(0, 3\)"):
        apply_zhang_rules(marks, Grounds())
    out = apply_zhang_rules(marks, Grounds({(0, 3): frozenset({1, 2}), (0, 2): frozenset()}))
    assert (out[2, 3], out[3, 2]) == (ARROW, TAIL)
    into = apply_zhang_rules(marks, Grounds({(0, 3): frozenset({1}), (0, 2): frozenset()}))
    assert (into[2, 3], into[3, 2], into[1, 2]) == (ARROW, ARROW, ARROW)
    # a collider and parent of c that the set lacks leaves t and c connected: nothing is told of b
    for lacking in (frozenset(), frozenset({2})):
        held = apply_zhang_rules(marks, Grounds({(0, 3): lacking, (0, 2): frozenset()}))
        assert (held[2, 3], held[3, 2]) == (ARROW, CIRCLE)


def observed_case(seed):
    """A random DAG without selection: what is observed, its MAG and skeleton, and the oracle."""
    dag, hidden, selected = random_case(2 * (seed // 2))
    observed = [v for v in range(len(dag)) if v not in hidden]
    mag = mag_of(dag, hidden, selected)
    skeleton = np.zeros((len(observed), len(observed)), dtype=bool)
    for end in mag:
        skeleton[end] = True
    return observed, mag, skeleton, OracleTest(dag)


@given(st.integers(0, 10**6))
def test_possible_d_sep_has_all_that_separates(seed):
    """Of two variables that some set separates, a subset of Possible-D-SEP of one does."""
    observed, mag, skeleton, oracle = observed_case(seed)
    n = len(observed)
    marks = with_colliders(circles(skeleton), colliders_by_sepset(skeleton, sepsets_of(n, mag)))
    for x, y in combinations(range(n), 2):
        if not skeleton[x, y]:
            above = anteriors(mag, {x, y}) - {x, y}
            near = (possible_d_sep(marks, *ends).tolist() for ends in ((x, y), (y, x)))
            sides = [above & set(own) for own in near]
            assert any(
                oracle.separated(observed[x], observed[y], [observed[v] for v in own])
                for own in sides
            )


@given(st.integers(1, 9), st.floats(0.0, 0.6), st.integers(0, 10**6))
def test_blocks_are_those_of_networkx(n, share, seed):
    drawn = np.triu(np.random.default_rng(seed).random((n, n)) < share, k=1)
    skeleton = drawn | drawn.T
    found = blocks_of(skeleton)
    assert ((found >= 0) == skeleton).all()
    assert (found == found.T).all()
    edges = [set(map(frozenset, np.argwhere(found == k).tolist())) for k in range(found.max() + 1)]
    true = nx.biconnected_component_edges(nx.from_numpy_array(skeleton))
    assert {frozenset(own) for own in edges} == {frozenset(map(frozenset, own)) for own in true}


@given(st.integers(0, 10**6))
def test_what_separates_two_needs_no_variable_of_another_block(seed):
    """With an edge between the two, as while it is tested whether there is one."""
    observed, mag, skeleton, oracle = observed_case(seed)
    for (x, y), sepset in sepsets_of(len(observed), mag).items():
        tested = skeleton.copy()
        tested[x, y] = tested[y, x] = True
        blocks = blocks_of(tested)
        inside = np.flatnonzero((blocks == blocks[x, y]).any(axis=0)).tolist()
        own = [observed[v] for v in sepset if v in inside]
        assert oracle.separated(observed[x], observed[y], own)
