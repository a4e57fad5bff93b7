"""How many tests a site keeps between questions: a number that no coordinator can raise."""

import gc
import weakref

import numpy as np
from evidence_sites import discrete_codes

from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.sites.answers.site_view import MOST_TESTS, SiteView
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest

CODES = discrete_codes(np.random.default_rng(0), 300, (2, 3, 2, 2))


def votes(least, alpha=0.05):
    return EdgeVotes(
        skeleton=Skeleton.from_matrix(~np.eye(4, dtype=bool)),
        layer=0,
        test=CITestSpec(alpha=alpha, min_rows_per_cell=least),
    )


def site(made):
    def make(spec):
        test = DiscreteTest(CODES, min_rows_per_cell=spec.min_rows_per_cell)
        made.append((spec.min_rows_per_cell, weakref.ref(test)))
        return test

    return SiteView(None, None, (0,) * 4, make_test=make)


def alive(made):
    gc.collect()
    return [least for least, test in made if test() is not None]


def test_forty_thresholds_leave_the_tests_of_the_last_few():
    made = []
    view = site(made)
    for least in range(1, 41):
        view.answer(votes(float(least)))
    assert alive(made) == [float(41 - k) for k in range(MOST_TESTS, 0, -1)]


def test_a_test_used_again_is_cached_whatever_alpha_is():
    made = []
    view = site(made)
    for least in range(1, 20):
        view.answer(votes(float(least)))
        view.answer(votes(1.0, alpha=0.5 / least))
    assert len(made) == 19
    assert 1.0 in alive(made)


def test_what_was_forgotten_is_answered_the_same():
    view = site([])
    asked = [votes(float(least)) for least in (1, 2, 5, 20, 60, 1, 5, 60)]
    for question in asked:
        again = site([]).answer(question)
        assert view.answer(question).tolist() == again.tolist()
