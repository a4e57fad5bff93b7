"""Roles of a comparison: fair, the same everywhere, and not to be had by leaving others out."""

import hashlib
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.errors import ParameterError
from cipherdag.privacy.key_graph import in_turn

BEACON = hashlib.sha256(b"beacon").digest()


def test_every_assignment_of_three_roles_is_as_likely():
    found = [in_turn(BEACON, step, range(5), 3) for step in range(12_000)]
    counts = [found.count(roles) for roles in permutations(range(5), 3)]
    assert sum(counts) == len(found)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_roles_of_one_step_say_nothing_of_another_step_or_run():
    other = hashlib.sha256(b"another beacon").digest()
    dealers = [in_turn(BEACON, step, range(4), 1)[0] for step in range(8000)]
    elsewhere = [in_turn(other, step, range(4), 1)[0] for step in range(8000)]
    for one, two in ((dealers[:-1], dealers[1:]), (dealers, elsewhere)):
        table = np.zeros((4, 4))
        np.add.at(table, (one, two), 1)
        assert stats.chi2_contingency(table).pvalue > 1e-4


@given(st.sets(st.integers(0, 60), min_size=3), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_who_leaves_out_sites_gets_the_next_in_turn(sites, step, data):
    order = in_turn(BEACON, step, sorted(sites), len(sites))
    assert set(order) == sites
    left = data.draw(st.sets(st.sampled_from(order), max_size=len(sites) - 3))
    kept = data.draw(st.permutations(sorted(sites - left)))
    assert in_turn(BEACON, step, kept, 3) == tuple(s for s in order if s not in left)[:3]


@pytest.mark.parametrize(
    ("beacon", "step", "present", "roles"),
    [
        (b"short", 0, (0, 1, 2), 3),
        (BEACON, -1, (0, 1, 2), 3),
        (BEACON, 2**32, (0, 1, 2), 3),
        (BEACON, 0, (0, 1), 3),
        (BEACON, 0, (0, 1, 1), 2),
    ],
)
def test_a_role_without_a_site_or_randomness_is_refused(beacon, step, present, roles):
    with pytest.raises(ParameterError):
        in_turn(beacon, step, present, roles)
