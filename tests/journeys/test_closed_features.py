"""FedCMFS by verdicts where a site dies in any step of any round: it goes on, or says why not."""

import itertools
from functools import cache

import pytest
from adversary import Ward, silence
from driving import drive

from cipherdag import FedCMFS
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import SiteUnreachableError
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.set_up import roles_of

ALGORITHM = FedCMFS(k1=100, k2=100, alpha=0.2, reveal="bits")
LEAVER = "hospital-5"
LABELS = (0, 2)


def features(number=None, step=None):
    """What is selected, and after how many rounds; None where the leaver has a role."""
    ward, n_variables, has_role = opened(number, step)
    rounds = itertools.count(1)
    honest = ward.engine.call

    def call(operation, messages, **options):
        if operation == "ask" and next(rounds) == number:
            silence(ward, LEAVER, step)
            return ward.engine.call(operation, messages, **options)
        return honest(operation, messages, **options)

    ward.engine.call = call
    facts = Facts(n_variables, 6, labels=ward.session.labels, min_contributors=3)
    asking = Replay(ALGORITHM.ask(facts), facts.present)
    if has_role:
        with pytest.raises(SiteUnreachableError, match=r"'hospital-5': it is the"):
            run_program(ward.session, asking)
        return None, len(ward.session.rounds)
    outcome = run_program(ward.session, asking)
    ward.session.finish()
    left = [own.site for own in ward.session.dropouts]
    assert left == ([] if number is None else [LEAVER])
    return chosen(outcome), len(ward.session.rounds)


def opened(number, step):
    """A ward, its variables, and whether the leaver has a role.

    Roles are drawn for each run: one who is to die in a step of theirs must have one.
    """
    while True:
        ward = Ward(n_sites=6, algorithm=ALGORITHM, labels=LABELS)
        n_variables = ward.session.open()
        has_role = 5 in roles_of(ward.session._plan, ward.session._beacon).sites
        if number is None or has_role == (step == "secure"):
            return ward, n_variables, has_role and number is not None


def chosen(outcome):
    return {label: own.features for label, own in outcome.by_label.items()}


@cache
def without(*away):
    """What plain sums over the sites that are left select."""
    ward = Ward(n_sites=6, algorithm=ALGORITHM, labels=LABELS)
    sites = [own._respondent for name, own in ward.runtimes.items() if name not in away]
    facts = Facts(len(next(iter(ward.tables.values())).names), 6, labels=LABELS, min_contributors=3)
    return chosen(drive(ALGORITHM.ask(facts), sites)[0])


def test_all_rounds_under_masks_are_those_of_plain_sums():
    found, rounds = features()
    assert found == without()
    assert any(found.values())
    assert rounds >= 4


@pytest.mark.parametrize("step", ["ask", "secure"])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_dead_site_is_missed_or_the_run_ends_by_name(step, number):
    found, _ = features(number, step)
    assert (found is None) == (step == "secure")
    assert found is None or set(found) == set(LABELS)
    if (number, step) == (1, "ask"):
        assert found == without(LEAVER)
