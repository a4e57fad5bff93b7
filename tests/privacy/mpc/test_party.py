"""Who takes part in which batch, in which role, and what is refused before anything is computed."""

import hashlib
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from mpc_cohort import BEACON, COORDINATOR, Cohort, score_tests, split
from scipy import stats

from cipherdag.errors import CohortError, InconsistentQuestionError, ParameterError, ReplayError
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.seat import TURNS

PREDICATES = score_tests([1, 2], scores=4, variances=16)


# ------------------------------------------------------------------ roles


def test_roles_by_number_of_sites():
    two = Roles.draw(BEACON, [0, 1])
    assert (two.dealer, two.twin, set(two.holders)) == (COORDINATOR, None, {0, 1})
    three = Roles.draw(BEACON, [0, 1, 2])
    assert three.twin is None
    assert set(three.sites) == {0, 1, 2}
    for n_sites in (4, 10, 100):
        roles = Roles.draw(BEACON, range(n_sites))
        assert roles.twin is not None
        assert len(set(roles.sites)) == 4
    for few in ([], [3]):
        with pytest.raises(CohortError):
            Roles.draw(BEACON, few)


def test_every_committee_is_as_likely():
    found = Counter()
    for run in range(6000):
        beacon = hashlib.sha256(run.to_bytes(4, "big")).digest()
        found[frozenset(Roles.draw(beacon, range(6)).sites)] += 1
    assert set(found) == {frozenset(item) for item in combinations(range(6), 4)}
    assert stats.chisquare(list(found.values())).pvalue > 1e-6


@pytest.mark.parametrize(
    "roles", [(1, 1, (2, 3)), (0, 1, (2, 2)), (0, COORDINATOR, (2, 3)), (0, None, (COORDINATOR, 1))]
)
def test_one_party_has_one_role(roles):
    with pytest.raises(CohortError):
        Roles(*roles)


def test_what_a_role_is_asked():
    batch = Cohort(5).batch(PREDICATES)
    assert [batch.role_of(item) for item in range(5)] == [
        "dealer",
        "twin",
        "holder",
        "holder",
        "site",
    ]
    for stranger in (5, COORDINATOR):
        with pytest.raises(CohortError):
            batch.role_of(stranger)
    assert Cohort(2).batch(PREDICATES).role_of(COORDINATOR) == "coordinator"
    assert {item for verbs in TURNS.values() for item in verbs} == {
        "share", "prepare", "square", "compare", "open",
    }  # fmt: skip


# ------------------------------------------------------------------ batches


def test_a_batch_ends_with_a_lost_role_and_nobody_steps_in():
    cohort = Cohort(5)
    for gone in range(4):
        with pytest.raises(CohortError, match="left"):
            cohort.batch(PREDICATES, sites=[item for item in range(5) if item != gone])
    assert cohort.batch(PREDICATES, sites=range(4)).sites == (0, 1, 2, 3)
    with pytest.raises(CohortError):
        Cohort(3).batch(PREDICATES, sites=(1, 2))
    dealt = Roles(COORDINATOR, None, (0, 1))
    with pytest.raises(CohortError, match="two sites"):
        Batch(bytes(32), bytes(32), 1, 0, (0, 1, 2), dealt, PREDICATES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": b"short"},
        {"question": b"short"},
        {"number": -1},
        {"number": 2**32},
        {"attempt": 2**32},
        {"sites": (3, 2, 1, 0)},
        {"sites": (0, 1, 2, 3, 3)},
        {"sites": (0, 1, 2, 3, 2**32)},
        {"sites": (-1, 0, 1, 2, 3)},
    ],
    ids=str,
)
def test_a_batch_that_cannot_be_is_refused(wrong):
    good = {
        "session": bytes(32), "question": bytes(32), "number": 1, "attempt": 0,
        "sites": (0, 1, 2, 3), "roles": Roles(0, 1, (2, 3)), "predicates": PREDICATES,
    }  # fmt: skip
    Batch(**good)
    with pytest.raises(ParameterError):
        Batch(**(good | wrong))


# ------------------------------------------------------------------ parties


def test_a_party_refuses_another_session_other_roles_and_missing_keys():
    cohort = Cohort(6)
    batch = cohort.batch(PREDICATES)
    other_roles = Batch(
        batch.session, batch.question, 1, 0, batch.sites, Roles(1, 0, (2, 3)), PREDICATES
    )
    other_session = Batch(
        bytes(32), batch.question, 1, 0, batch.sites, batch.roles, PREDICATES
    )  # fmt: skip
    for wrong in (other_roles, other_session):
        with pytest.raises(InconsistentQuestionError):
            cohort.parties[5].begin(wrong)
    sparse = Cohort(6, linked={0, 1, 2})
    for item in (3, 4):  # the second holder has no key with the sites that have no role
        with pytest.raises(CohortError, match="no key"):
            sparse.parties[item].begin(batch)
    sparse.parties[0].begin(batch)


def test_batches_come_in_order_and_the_last_part_ends_with_the_next():
    cohort = Cohort(4)
    vector = np.zeros(6, dtype=np.int64)
    first = cohort.parties[3].begin(cohort.batch(PREDICATES, number=5))
    for number, attempt in ((5, 0), (4, 0), (4, 9)):
        with pytest.raises(ReplayError):
            cohort.parties[3].begin(cohort.batch(PREDICATES, number=number, attempt=attempt))
    cohort.parties[3].begin(cohort.batch(PREDICATES, number=5, attempt=1))
    with pytest.raises(ReplayError):
        first.share(vector)


def test_a_site_without_a_role_shares_and_nothing_more():
    cohort = Cohort(5)
    seat = cohort.parties[4].begin(cohort.batch(PREDICATES))
    with pytest.raises(ReplayError):
        seat.prepare(b"")
    with pytest.raises(ReplayError):  # a step out of turn ended its part
        seat.share(np.zeros(6, dtype=np.int64))


def test_bits_of_another_batch_than_the_last_are_not_accepted():
    rng = np.random.default_rng(1)
    cohort = Cohort(4)
    vectors = split(rng, PREDICATES, np.zeros(6, dtype=np.int64), 4)
    first = cohort.batch(PREDICATES)
    content = cohort.opened(first, vectors)
    cohort.run(cohort.batch(PREDICATES, number=2), vectors)
    with pytest.raises(ReplayError):
        cohort.parties[3].accept(content, first, [item.public for item in cohort.identities])


def test_a_holder_without_an_identity_signs_nothing():
    cohort = Cohort(4)
    cohort.parties[2]._identity = None
    with pytest.raises(CohortError, match="signs"):
        cohort.run(cohort.batch(PREDICATES), np.zeros((4, 6), dtype=np.int64))
