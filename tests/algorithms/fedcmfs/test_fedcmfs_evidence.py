"""FedCMFS on one test over all sites: exact, equal to one site's, and less blind on small sites."""

import numpy as np
import pytest
from driving import drive, respondent
from label_tables import continuous_table, discrete_table, draw_labels, found
from oracle import OracleTest, random_dag

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.fedcmfs.combined_triplets import by_combination
from cipherdag.errors import ParameterError
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.sites.compute.ci_tests.ci_test import CITestResult
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest


class LoudOracle(OracleTest):
    """A statistic of 1000 where x and y are connected, so that its sum has the oracle's p-value."""

    def evaluate(self, x, y, given):
        own = super().evaluate(x, y, given)
        return CITestResult(
            p_value=own.p_value,
            statistic=1000.0 * own.statistic,
            dof=own.dof,
            dependence=own.dependence,
            rows=own.rows,
        )


def test_exact_under_an_oracle():
    rng = np.random.default_rng(5)
    algorithm = FedCMFS(k1=100, k2=100, max_cond_size=None, evidence="fisher", reveal="sums")
    for _ in range(25):
        n = int(rng.integers(3, 11))
        dag = random_dag(n, float(rng.uniform(1, 3)), rng)
        labels = draw_labels(rng, n)
        sites = [respondent(LoudOracle(dag)) for _ in range(3)]
        outcome, asked = drive(algorithm.ask(Facts(n, 3, labels=labels)), sites)
        assert {type(question) for question in asked} == {CombinedEvidence}
        for label in labels:
            assert found(outcome, label) == set(np.flatnonzero((dag | dag.T)[label]))


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_at_one_site_it_is_the_site_s_own_test(kind):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        if kind == "discrete":
            test = DiscreteTest(discrete_table(rng, rows=2000))
        else:
            test = FisherZTest(continuous_table(rng))
        chosen = [
            drive(
                FedCMFS(evidence=own, k1=50, k2=50, reveal="sums").ask(Facts(9, 3, labels=(0, 4))),
                [respondent(test)],
            )[0]
            for own in ("weighted_p", "fisher")
        ]
        for label in (0, 4):
            one, other = (outcome.by_label[label] for outcome in chosen)
            assert set(one.learned) == set(other.learned)
            np.testing.assert_allclose(
                other.marginals.p_value, one.marginals.p_value, rtol=1e-9, atol=1e-12
            )


def test_many_small_sites_see_together_what_none_sees_alone():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 20))
    y = 0.35 * x + rng.standard_normal((30, 20))
    sites = [respondent(FisherZTest(np.column_stack(own))) for own in zip(x, y, strict=True)]
    features = {
        evidence: drive(FedCMFS(evidence=evidence).ask(Facts(2, 3, labels=(1,))), sites)[0]
        .by_label[1]
        .features
        for evidence in ("weighted_p", "fisher")
    }
    assert features == {"weighted_p": (), "fisher": (0,)}


def test_no_triplet_is_asked_twice():
    rng = np.random.default_rng(3)
    tables = [continuous_table(rng, n=7, rows=n) for n in (60, 90, 140, 200)]
    algorithm = FedCMFS(evidence="fisher", k1=50, k2=50, reveal="sums")
    _, asked = drive(
        algorithm.ask(Facts(7, 3, labels=(0, 3))), [respondent(FisherZTest(own)) for own in tables]
    )
    rows = [tuple(row) for question in asked for block in question.rows() for row in block.tolist()]
    assert len(rows) == len(set(rows))


def test_what_it_cannot_be_is_named():
    with pytest.raises(ParameterError, match="evidence must be one of"):
        FedCMFS(evidence="vote")

    def foreign():
        yield CombinedEvidence

    with pytest.raises(TypeError, match="only weighted evidence"):
        next(by_combination(foreign()))
