"""FedPC: exact under an oracle, equal to the original program, and free of orders."""

import numpy as np
import pytest
from driving import drive, respondent
from oracle import OracleTest, random_dag

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import FedPC, Voting
from cipherdag.algorithms.fedpc.voting import PAPER, PROGRAM, VoteRule
from cipherdag.graphs.orientation import cpdag_of


def oracle_outcome(dag, algorithm, n_sites=3):
    sites = [respondent(OracleTest(dag)) for _ in range(n_sites)]
    return drive(algorithm.ask(Facts(len(dag), n_sites)), sites)


@pytest.mark.parametrize("sepset", ["max", "mean", "vote"])
def test_the_true_cpdag_under_an_oracle(sepset):
    rng = np.random.default_rng(2026)
    algorithm = FedPC(evidence="vote", voting=Voting(sepset=sepset), max_cond_size=None)
    for _ in range(80 if sepset == "max" else 30):
        dag = random_dag(int(rng.integers(3, 11)), float(rng.uniform(1, 3)), rng)
        outcome, _ = oracle_outcome(dag, algorithm)
        assert (outcome.arcs == cpdag_of(dag)).all()


def test_the_code_reference_is_exact_too_where_its_limits_do_not_bind():
    rng = np.random.default_rng(7)
    for _ in range(30):
        dag = random_dag(int(rng.integers(3, 7)), 1.5, rng)
        outcome, _ = oracle_outcome(dag, FedPC.as_published("code"))
        assert (outcome.arcs == cpdag_of(dag)).all()


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
