"""Keys of a session that has ended are in nobody's memory any more."""

import gc

import pytest
from adversary import Ward
from driving import outcome_over

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import SiteUnreachableError
from cipherdag.privacy.homomorphic_mac import MacKey
from cipherdag.privacy.keys.pairkeys import EphemeralKeys, PairKey
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.sums import SiteAggregation

KEYS = (PairKey, MacKey, EphemeralKeys, SiteAggregation, Party)


def held():
    gc.collect()
    return [own for own in gc.get_objects() if type(own) in KEYS]


@pytest.fixture(autouse=True)
def apart():
    """Nothing that other tests of this process hold is looked at."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
def test_no_key_of_a_session_outlives_it(protection):
    ward = Ward(protection, algorithm=FedPC(evidence="vote"))
    n_variables = ward.session.open()
    shared = {MacKey, SiteAggregation, Party} | ({PairKey} if protection != "none" else set())
    assert {type(own) for own in held()} == shared
    outcome_over(ward.session, n_variables=n_variables)
    ward.session.finish()
    assert ward.session.result
    assert not held()


def test_no_key_is_kept_for_the_reason_of_a_refusal():
    ward = Ward(algorithm=FedPC(evidence="vote"))
    n_variables = ward.session.open()
    with pytest.raises(SiteUnreachableError):
        outcome_over(ward.session, FedPC(evidence="vote", alpha=0.5), n_variables)
    reasons = {site: own.refused for site, own in ward.runtimes.items()}
    assert all("not that of the plan" in own.message for own in reasons.values())
    ward.session._present = (0, 1, 2)
    ward.session.finish()
    assert [own.refused for own in ward.runtimes.values()] == list(reasons.values())
    assert not held()
