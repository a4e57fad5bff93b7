"""The secure maximum and minimum equal the plain ones, in the promised number of rounds."""

import math

import numpy as np
from driving import answered
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.comparison import secure_any, secure_max, secure_min
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.separators import BestScoreExceeds, SeparatorSearch
from cipherdag.questions.skeleton import Skeleton


def question(thresholds):
    pairs = np.tile([[0, 2]], (len(thresholds), 1))
    matrix = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    search = SeparatorSearch(
        skeleton=Skeleton.from_matrix(matrix),
        pairs=pack_integers(pairs),
        test=CITestSpec(alpha=0.05),
    )
    return BestScoreExceeds(search=search, thresholds=pack_integers(thresholds))


def compared(asking, exceeds):
    """Drive a comparison; ``exceeds`` maps thresholds to the any-site answer."""
    found, heard = answered(
        asking, lambda asked: exceeds(asked.threshold_array()).astype(float).ravel()
    )
    return found, len(heard)


groups_of_sites = st.integers(1, 5).flatmap(
    lambda groups: st.lists(
        st.lists(st.integers(0, 2**20 + 1), min_size=groups, max_size=groups),
        min_size=1,
        max_size=6,
    )
)


@given(values=groups_of_sites, arity=st.sampled_from([2, 3, 4, 16, 64]))
def test_secure_max_is_the_maximum(values, arity):
    sites = np.array(values)
    upper = np.full(sites.shape[1], 2**20 + 1)
    found, rounds = compared(
        secure_max(question, upper, arity=arity),
        lambda t: (sites[:, :, None] > t[None]).any(axis=0),
    )
    assert (found == sites.max(axis=0)).all()
    assert rounds <= math.ceil(math.log(2**20 + 2) / math.log(arity)) + 1


@given(values=groups_of_sites)
def test_secure_min_is_the_minimum(values):
    sites = np.array(values)
    upper = sites.max(axis=0) + 3
    found, _ = compared(
        secure_min(question, upper), lambda t: (sites[:, :, None] < t[None]).any(axis=0)
    )
    assert (found == sites.min(axis=0)).all()


def test_different_upper_bounds_and_ties():
    sites = np.array([[0, 1, 7, 0], [0, 1, 7, 900]])
    upper = np.array([0, 1, 7, 1000])
    found, rounds = compared(
        secure_max(question, upper), lambda t: (sites[:, :, None] > t[None]).any(axis=0)
    )
    assert found.tolist() == [0, 1, 7, 900]
    assert rounds == 3


def test_no_group_asks_nothing():
    found, rounds = compared(secure_max(question, np.zeros(0, dtype=np.int64)), None)
    assert found.size == 0
    assert rounds == 0


def test_sixteen_ways_find_twenty_bits_in_five_rounds():
    sites = np.array([[123_456]])
    found, rounds = compared(
        secure_max(question, np.array([2**20 - 1])),
        lambda t: (sites[:, :, None] > t[None]).any(axis=0),
    )
    assert found.tolist() == [123_456]
    assert rounds == 5


def test_the_thresholds_asked_depend_on_the_maximum_alone():
    def asked_for(sites):
        seen = []

        def exceeds(t):
            seen.append(t.tolist())
            return (np.array(sites)[:, :, None] > t[None]).any(axis=0)

        compared(secure_max(question, np.array([1000])), exceeds)
        return seen

    assert asked_for([[700], [1], [699]]) == asked_for([[700], [700], [0]])


def test_secure_any_is_one_question():
    found, rounds = compared(secure_any(question(np.array([[1], [2]]))), lambda t: t > 1)
    assert found.tolist() == [False, True]
    assert rounds == 1
