"""Every kind of evidence: says what it opens, asks nothing twice, and is free of every order."""

from dataclasses import replace

import numpy as np
import pytest
from driving import drive
from evidence_sites import cut, gaussian_site, gaussian_values

from cipherdag import FedCMFS, FedPC
from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Presence

SETTINGS = EvidenceSettings(spec=CITestSpec(alpha=0.01), n_variables=5, present=Presence(3))
TESTS = [np.array([[0, 1], [3, 4]]), np.array([[0, 2, 1], [1, 4, 2]]), np.array([[0, 4, 1, 3]])]
TURNED = [np.array([[1, 0], [4, 3]]), np.array([[2, 0, 1], [4, 1, 2]]), np.array([[4, 0, 3, 1]])]


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(11)
    return [gaussian_site(part) for part in cut(gaussian_values(rng, 900, 5), 3, rng)]


def answered(kind, sites, *rounds, settings=SETTINGS):
    """P-values of several lists of tests from one source, and how many questions each cost."""
    asked = []

    def asking():
        source = yield from EVIDENCE[kind].open(settings)
        found = []
        for tests in rounds:
            p_values = yield from source.p_values(tests)
            found.append(np.concatenate(p_values))
            asked.append(sum(source.n_tests_by_method.values()))
        return found

    found, questions = drive(asking(), sites)
    return found, asked, questions


@pytest.mark.parametrize("kind", EVIDENCE)
def test_it_says_what_it_discloses_wherever_it_can_be_chosen(kind):
    own = EVIDENCE[kind]
    assert own.name == kind
    assert {*own.discloses} <= {*FedPC(evidence=kind, reveal="sums").disclosures()}
    if own.triplets:
        assert {*own.discloses} <= {*FedCMFS(evidence=kind, reveal="sums").disclosures()}


@pytest.mark.parametrize("kind", EVIDENCE)
def test_p_values_depend_on_no_order_and_nothing_is_asked_twice(kind, sites):
    (first, again, turned), n_tests_by_method, _ = answered(kind, sites, TESTS, TESTS, TURNED)
    assert ((first >= 0) & (first <= 1)).all()
    assert (first == again).all()
    assert (first == turned).all()
    assert n_tests_by_method == [5, 5, 5]
    (mirrored,), _, _ = answered(kind, sites[::-1], TESTS)
    assert np.allclose(first, mirrored, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", EVIDENCE)
def test_false_positives_keep_to_the_level_and_what_depends_is_found(kind):
    rng = np.random.default_rng(5)
    values = rng.normal(size=(450, 24))
    values[:, 1] += values[:, 0]
    pairs = np.argwhere(np.triu(np.ones((24, 24)), 1))
    settings = replace(SETTINGS, n_variables=24)
    (found,), _, _ = answered(
        kind, [gaussian_site(p) for p in np.split(values, 3)], [pairs], settings=settings
    )
    assert found[0] < 1e-6
    independent = found[1:]
    deviation = np.sqrt(0.05 * 0.95 / len(independent))
    assert (independent < 0.05).mean() < 0.05 + 3 * deviation


def test_a_kind_that_hides_what_it_discloses_cannot_be_made():
    with pytest.raises(ValueError, match="'quiet' does not say what it discloses"):
        replace(EVIDENCE["fisher"], name="quiet", discloses=())
    with pytest.raises(TypeError, match="discloses"):
        CombinationMethod(name="quiet", open=EVIDENCE["fisher"].open)
