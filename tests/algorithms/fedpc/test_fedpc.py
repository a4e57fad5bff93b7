"""FedPC: exact under an oracle, equal to the original program, and free of orders."""

import numpy as np
import original_fedpc as original
import pytest
from driving import drive, respondent
from oracle import OracleTest, random_dag

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import FedPC, Voting
from cipherdag.algorithms.fedpc.voting import PAPER, PROGRAM, VoteRule
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest


def oracle_outcome(dag, algorithm, n_sites=3):
    sites = [respondent(OracleTest(dag)) for _ in range(n_sites)]
    return drive(algorithm.ask(Facts(len(dag), n_sites)), sites)


@pytest.mark.parametrize("sepset", ["max", "mean", "vote"])
def test_the_true_cpdag_under_an_oracle(sepset):
    rng = np.random.default_rng(2026)
    algorithm = FedPC(evidence="vote", voting=Voting(sepset=sepset), max_cond_size=None)
    for _ in range(200 if sepset == "max" else 60):
        dag = random_dag(int(rng.integers(3, 11)), float(rng.uniform(1, 3)), rng)
        outcome, _ = oracle_outcome(dag, algorithm)
        assert (outcome.arcs == cpdag_of(dag)).all()


def test_the_code_reference_is_exact_too_where_its_limits_do_not_bind():
    rng = np.random.default_rng(7)
    for _ in range(60):
        dag = random_dag(int(rng.integers(3, 7)), 1.5, rng)
        outcome, _ = oracle_outcome(dag, FedPC.as_published("code"))
        assert (outcome.arcs == cpdag_of(dag)).all()


def discrete_sites(seed, n_sites, n=7, rows=260):
    rng = np.random.default_rng(seed)
    levels = rng.integers(2, 4, size=n)
    dag = random_dag(n, 2.0, rng)
    codes = np.zeros((rows * n_sites, n), dtype=np.int64)
    for v in topological(dag):
        parents = np.flatnonzero(dag[:, v])
        shift = codes[:, parents].sum(axis=1)
        noise = rng.integers(0, levels[v], size=len(codes))
        codes[:, v] = np.where(rng.random(len(codes)) < 0.7, shift % levels[v], noise)
    return np.array_split(codes, n_sites)


def continuous_sites(seed, n_sites, n=8, rows=200):
    rng = np.random.default_rng(seed)
    dag = random_dag(n, 2.0, rng)
    values = rng.standard_normal((rows * n_sites, n))
    for v in topological(dag):
        parents = np.flatnonzero(dag[:, v])
        values[:, v] += values[:, parents] @ rng.uniform(0.3, 1.0, size=len(parents))
    return np.array_split(values, n_sites)


def topological(dag):
    order, left = [], dag.copy()
    remaining = set(range(len(dag)))
    while remaining:
        roots = sorted(v for v in remaining if not left[:, v].any())
        order += roots
        left[roots] = False
        remaining -= set(roots)
    return order


@pytest.mark.parametrize("n_sites", [1, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_code_reference_is_the_original_program_on_discrete_data(n_sites, seed):
    sites = discrete_sites(seed, n_sites)
    check_against_original(sites, original.g2_test, [DiscreteTest(s) for s in sites], False)


@pytest.mark.parametrize("n_sites", [1, 3, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_code_reference_is_the_original_program_on_numbers(n_sites, seed):
    sites = continuous_sites(seed, n_sites)
    tests = [FisherZTest(s) for s in sites]
    check_against_original(sites, original.fisher_z_test, tests, True)


def check_against_original(sites, test, tests, continuous):
    algorithm = FedPC.as_published("code")
    asking = algorithm.ask(Facts(sites[0].shape[1], len(sites)))
    outcome, _ = drive(asking, [respondent(t) for t in tests])
    expected = original.skeleton(sites, test, 0.01)
    assert (outcome.skeleton == expected).all()
    separating = original.separators(sites, test, expected, 0.01, continuous)
    chosen = {pair: found or frozenset() for pair, found in outcome.separators.items()}
    assert chosen == separating
    assert (outcome.arcs == original.orient(expected, separating)).all()


def test_votes_needed_follow_paper_and_code():
    def needed(reference):
        rule = VoteRule(share=0.3, reference=reference, max_cond_size=3)
        return rule.needed(np.array([1, 3, 5, 10, 15])).tolist()

    assert needed(PAPER) == [1, 1, 2, 4, 5]
    assert needed(PROGRAM) == [1, 1, 2, 3, 5]


def test_rounds_do_not_grow_with_the_number_of_pairs():
    rng = np.random.default_rng(3)
    rounds = []
    for size in (8, 24):
        dag = random_dag(size, 2.0, rng)
        _, asked = oracle_outcome(dag, FedPC(evidence="vote"))
        rounds.append(sum(type(q).__name__ == "BestScoreExceeds" for q in asked))
    assert rounds == [5, 5]


def test_one_variable_and_two_independent_ones():
    outcome, asked = oracle_outcome(np.zeros((1, 1), dtype=bool), FedPC(evidence="vote"))
    assert not outcome.arcs.any()
    assert asked == []
    outcome, _ = oracle_outcome(np.zeros((2, 2), dtype=bool), FedPC(evidence="vote"))
    assert not outcome.arcs.any()
