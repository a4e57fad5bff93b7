"""Concurrent searches share rounds and get what they would get alone."""

import numpy as np
from driving import drive, plain_sum, respondent
from oracle import OracleTest, random_dag

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import FedPC, Voting
from cipherdag.questions.gather import gather
from cipherdag.questions.question import Bundle


def searches(rng, count):
    dag = random_dag(7, 2.0, rng)
    algorithms = [
        FedPC(evidence="vote", alpha=0.01),
        FedPC(alpha=0.02, evidence="vote", voting=Voting(sepset="vote")),
        FedPC.as_published("code"),
    ]
    return dag, [algorithms[k % 3] for k in range(count)]


def test_merged_searches_end_as_they_would_alone():
    rng = np.random.default_rng(5)
    dag, algorithms = searches(rng, 5)
    sites = [respondent(OracleTest(dag)) for _ in range(3)]
    alone = [drive(a.ask(Facts(7, 3)), sites) for a in algorithms]
    merged, asked = drive(gather([a.ask(Facts(7, 3)) for a in algorithms]), sites)
    assert len(asked) == max(len(questions) for _, questions in alone)
    for (outcome, _), other in zip(alone, merged, strict=True):
        assert (outcome.arcs == other.arcs).all()
        assert outcome.separators == other.separators


def test_bundles_are_never_nested():
    rng = np.random.default_rng(6)
    dag, algorithms = searches(rng, 4)
    pairs = [gather([a.ask(Facts(7, 3)) for a in algorithms[:2]]) for _ in range(2)]
    asking = gather(pairs)
    question = next(asking)
    assert isinstance(question, Bundle)
    assert len(question.parts) == 4
    assert plain_sum(question, [respondent(OracleTest(dag))]).shape == (4 * 2 * 21,)


def test_no_search_asks_nothing():
    outcome, asked = drive(gather([]), [])
    assert outcome == []
    assert asked == []
