"""A coordinator that sees who would deal, and sets up again until it likes the roles."""

from __future__ import annotations

import os
from itertools import pairwise

import hospital_folders
import msgspec
import pytest

from cipherdag.errors import CohortError, KeyAgreementError
from cipherdag.protocol.set_up import roles_of
from cipherdag.sites.session import handshake

NAMES = tuple(f"hospital-{k}" for k in range(5))
SET_UPS = 10


@pytest.fixture
def clinics(tmp_path):
    hospitals = hospital_folders.hospitals(tmp_path, names=NAMES)
    yield hospitals
    hospitals.close()


def set_up(hospitals, handlers, **options):
    """The roles of a set-up that the coordinator does not go on with."""
    session = hospitals.session(handlers, **options)
    session.open()
    return roles_of(session._plan, session._beacon)


def test_roles_are_the_same_after_any_number_of_set_ups(clinics):
    handlers = clinics.handlers()
    drawn = [set_up(clinics, handlers, seed=seed) for seed in range(SET_UPS)]
    clinics.restart(handlers, NAMES[0])
    drawn.append(set_up(clinics, handlers))
    assert all(one == other for one, other in pairwise(drawn))


def test_other_cohorts_have_roles_of_their_own(clinics):
    handlers = clinics.handlers()
    drawn = {
        tuple(names[site] for site in set_up(clinics, handlers, names=names).sites)
        for names in [NAMES, *(NAMES[:k] + NAMES[k + 1 :] for k in range(len(NAMES)))]
    }
    assert len(drawn) > 1


def test_the_order_of_the_sites_gives_no_other_roles(clinics):
    members = clinics.members[::-1]
    plan = msgspec.structs.replace(clinics.plan(), cohort=tuple(members))
    with pytest.raises(CohortError, match="order of their names"):
        clinics.session(clinics.handlers(), plan=plan).open()


@pytest.mark.parametrize("liar", [NAMES[0], NAMES[3]])
def test_a_site_that_commits_to_another_number_is_named(clinics, monkeypatch, liar):
    """Having seen the others' numbers, it could choose one that gives it the role it wants."""
    handlers = clinics.handlers()
    set_up(clinics, handlers)
    others = handshake.lasting_chance

    def lasting_chance(identity, plan):
        own = next(each.identity for each in plan.cohort if each.name == liar)
        return os.urandom(32) if identity.public == own else others(identity, plan)

    monkeypatch.setattr(handshake, "lasting_chance", lasting_chance)
    with pytest.raises(KeyAgreementError, match=f"'{liar}' commits to another number"):
        clinics.session(handlers).open()
