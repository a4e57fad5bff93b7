"""Questions: packing, candidate enumeration, and strict decoding of everything hostile."""

from functools import reduce
from itertools import combinations
from operator import or_

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.encodings import pack_integers, unpack_integers
from cipherdag.questions.question import question_kinds
from cipherdag.questions.separators import SeparatorSearch
from cipherdag.questions.skeleton import Skeleton

SPEC = CITestSpec(alpha=0.05)


@st.composite
def graphs(draw, most=9):
    size = draw(st.integers(1, most))
    bits = draw(st.lists(st.booleans(), min_size=size * size, max_size=size * size))
    upper = np.triu(np.array(bits, dtype=bool).reshape(size, size), 1)
    return upper | upper.T


@given(graphs())
def test_a_skeleton_survives_packing(adjacency):
    packed = Skeleton.from_matrix(adjacency)
    assert (packed.matrix() == adjacency).all()
    assert packed.n_edges == adjacency.sum() // 2
    edges = packed.edges().tolist()
    assert edges == sorted(edges)


def test_a_skeleton_of_wrong_length_or_with_stray_bits_is_refused():
    for bad in (b"", b"\x00\x00", b"\x01"):
        with pytest.raises(ValueError, match="triangle"):
            Skeleton(n_variables=4, upper=bad)
    with pytest.raises(ValueError, match="n_variables"):
        Skeleton(n_variables=0, upper=b"")


@given(graphs(), st.sampled_from(["either", "union"]), st.sampled_from([None, 0, 1, 2, 3]))
def test_candidates_are_enumerated_as_documented(adjacency, pool, limit):
    size = len(adjacency)
    pairs = [(x, z) for x, z in combinations(range(size), 2) if not adjacency[x, z]]
    search = SeparatorSearch(
        skeleton=Skeleton.from_matrix(adjacency),
        pairs=pack_integers(np.array(pairs, dtype=np.int64).reshape(-1, 2)),
        test=SPEC,
        pool=pool,
        max_cond_size=limit,
    )
    candidates = search.candidates()
    for group, (x, z) in enumerate(pairs):
        of_x = set(np.flatnonzero(adjacency[x]).tolist()) - {z}
        of_z = set(np.flatnonzero(adjacency[z]).tolist()) - {x}
        pools = [of_x | of_z] if pool == "union" else [of_x, of_z]
        largest = max(len(p) for p in pools)
        expected = []
        for l in range((largest if limit is None else min(limit, largest)) + 1):  # noqa: E741
            for p in pools:
                for chosen in combinations(sorted(p), l):
                    if frozenset(chosen) not in expected:
                        expected.append(frozenset(chosen))
        assert candidates.total(group) == len(expected)
        assert [candidates.at(group, i) for i in range(len(expected))] == expected
        with pytest.raises(IndexError):
            candidates.at(group, len(expected))


def test_packed_integers_must_fit_their_shape():
    values = np.array([[1, -2], [3, 2**40]])
    assert (unpack_integers(pack_integers(values), (2, 2)) == values).all()
    with pytest.raises(ValueError, match="length"):
        unpack_integers(pack_integers(values), (3, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 0.0},
        {"alpha": float("nan")},
        {"min_rows_per_cell": float("inf")},
        {"name": "exec"},
        {"extra": 1},
    ],
)
def test_a_hostile_test_specification_does_not_decode(change):
    fields = {"alpha": 0.05, "name": "g2", "dof": "plain", "min_rows_per_cell": 5.0} | change
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(fields, CITestSpec)


ANY_KIND = reduce(or_, question_kinds().values())


@given(st.binary(max_size=200))
def test_random_bytes_never_become_a_question(data):
    try:
        msgspec.msgpack.decode(data, type=ANY_KIND)
    except (msgspec.DecodeError, ValueError):
        return
    pytest.fail("random bytes decoded as a question")


def test_a_pair_outside_the_graph_is_refused():
    packed = Skeleton.from_matrix(np.zeros((3, 3), dtype=bool))
    for pairs in ([[0, 3]], [[1, 1]], [[2, 0]], [[-1, 2]]):
        with pytest.raises(ValueError, match="pairs"):
            SeparatorSearch(skeleton=packed, pairs=pack_integers(np.array(pairs)), test=SPEC)
