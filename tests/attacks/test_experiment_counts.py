"""How many rows of each experiment the sites have, from the sums of Fed-CD's weights."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import FedCD, Federation, Policy, Training
from cipherdag.algorithms.fedcd import algorithm as fedcd
from cipherdag.questions.encodings import pack_floats, segments
from cipherdag.questions.local_beliefs import LocalBeliefs, off_diagonal
from cipherdag.sites.answers.belief_answers import (
    ROW_STEP,
    site_weights,
    stepped_rows,
    weighted_answer,
)
from cipherdag.sites.compute.beliefs.regimes import Regimes
from cipherdag.sites.compute.device import PROCESSOR

LEAST, MOST = 11, 100
FIRST = LocalBeliefs(n_variables=3, round=1, seed=0)
PLAN = np.array([[1, 57, 20], [3, 0, 0], [57, 8, 2]])
"""Rows of each experiment, by site."""
COUNTS = np.arange(MOST + 1)
PAIRS = tuple(itertools.combinations(range(3), 2))


def first_weight(count, least):
    """The rule is public: what a pair weighs in the first round, given its larger count."""
    counts = np.array([count, 0.0, 0.0])
    return site_weights(FIRST, np.zeros((1, 3, 3)), counts, 300, least=least)[0, 1]


def opened(least, plan=PLAN):
    """The sums of weights that the first round opens, shape (p (p - 1),)."""
    rng = np.random.default_rng(0)
    sums = sum(
        weighted_answer(FIRST, rng.random((1, 3, 3)), counts, 300, least=least) for counts in plan
    )
    grid = 2.0 ** FIRST.encodings[1].resolution_bits
    return np.rint(segments(FIRST.encodings, sums)[1] * grid) / grid


def explained(total, n_sites, least):
    """Every multiset of counts, shape (found, n_sites), whose weights add up to a sum."""
    weights = np.array([first_weight(count, least) for count in COUNTS])
    multisets = np.array(list(itertools.combinations_with_replacement(COUNTS, n_sites)))
    return multisets[np.abs(weights[multisets].sum(axis=1) - total) < n_sites * 2.0**-43]


def by_pair(sums):
    place = {pair: k for k, pair in enumerate(itertools.permutations(range(3), 2))}
    return [sums[place[pair]] for pair in PAIRS]


def largest(plan, pair):
    return sorted(plan[:, pair].max(axis=1).tolist())


def test_exact_weights_have_one_solution_which_is_every_sites_count():
    for pair, total in zip(PAIRS, by_pair(opened(1)), strict=True):
        assert explained(total, 3, 1).tolist() == [largest(PLAN, list(pair))]


def test_a_coordinator_with_one_site_solves_for_the_other_two():
    for pair, total in zip(PAIRS, by_pair(opened(1) - opened(1, PLAN[:1])), strict=True):
        assert explained(total, 2, 1).tolist() == [largest(PLAN[1:], list(pair))]


@pytest.mark.parametrize("known", [0, 1])
def test_sums_of_small_counts_fit_many_counts_and_no_few_rows_alone(known):
    told = opened(LEAST) - (opened(LEAST, PLAN[:1]) if known else 0.0)
    for total in by_pair(told):
        found = explained(total, 3 - known, LEAST)
        assert len(found) >= (66 if known else 1000)  # 66: both of two have 0 to 10
        # wherever one of the sites may have few rows, none and all numbers of few fit as well
        few = found[(found < LEAST).any(axis=1)]
        if len(few):
            assert set(range(LEAST)) <= set(few.ravel().tolist())


def test_few_rows_of_an_experiment_change_no_bit():
    without = np.where(PLAN < LEAST, 0, PLAN)
    assert np.array_equal(opened(LEAST), opened(LEAST, without))
    assert not np.array_equal(opened(1), opened(1, without))


@st.composite
def rounds(draw):
    """A question of any round, and two vectors of counts that lie in the same steps."""
    p = draw(st.integers(2, 5))
    reference = draw(st.sampled_from(["paper", "code"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    last = rng.random((1, p, p)) if reference == "paper" else rng.normal(size=(2, p, p))
    last[:, np.arange(p), np.arange(p)] = 0.0
    question = LocalBeliefs(
        n_variables=p,
        round=2,
        seed=0,
        belief=draw(st.sampled_from([b"", pack_floats(last)])),
        reference=reference,
        sharpness=draw(st.floats(0.1, 30.0)),
        full_mass=draw(st.integers(1, 1000)),
        reach=draw(st.sampled_from(["edges", "tails", "ends"])),
        decay=draw(st.floats(0.1, 1.0)),
    )
    least = draw(st.integers(2, 60))
    one = rng.integers(0, 300, p)
    told = stepped_rows(one, least)
    other = np.array([
        rng.choice([c for c in range(400) if stepped_rows(np.array([c]), least)[0] == own])
        for own in told
    ])  # fmt: skip
    return question, rng.normal(size=last.shape), (one, other), least


@given(rounds())
def test_no_round_of_any_plan_tells_apart_counts_of_the_same_steps(drawn):
    """So that neither later rounds nor many plans, by `full_mass`, narrow them down."""
    question, learnt, (one, other), least = drawn
    answers = [weighted_answer(question, learnt, own, 500, least=least) for own in (one, other)]
    assert answers[0].tobytes() == answers[1].tobytes()


NAMES = ("dose", "enzyme", "pain")
SHORT = FedCD(
    rounds=1, training=Training(epochs=1, fit_steps=5, graph_steps=5, batch=16, graphs=8, hidden=4)
)


def hospital(rng, counts):
    """Coin throws, half of them set by us as the counts say."""
    marks = np.repeat(["", *NAMES], [60, *counts])
    return pd.DataFrame(rng.integers(0, 2, (len(marks), 3)), columns=NAMES).assign(mark=marks)


@pytest.mark.parametrize("least", [1, LEAST])
def test_a_run_of_the_whole_protocol_opens_these_sums(least, monkeypatch):
    rng, heard = np.random.default_rng(0), []
    sites = {f"site-{k}": hospital(rng, counts) for k, counts in enumerate(PLAN)}
    honest = fedcd.aggregate
    monkeypatch.setattr(fedcd, "aggregate", lambda q, sums: heard.append(sums) or honest(q, sums))
    federation = Federation.simulate(
        sites, interventions="mark", policy=Policy(min_cell_size=least), device="cpu"
    )
    federation.run(SHORT)
    weights = segments(FIRST.encodings, np.array(heard[0]))[1]
    assert weights == pytest.approx(opened(least), abs=2.0**-40)


def test_no_belief_is_learnt_from_experiments_of_few_rows():
    rng = np.random.default_rng(0)
    marks = np.zeros((60 + PLAN[0].sum(), 3), dtype=bool)
    marks[np.arange(60, len(marks)), np.repeat(np.arange(3), PLAN[0])] = True
    cells = rng.integers(0, 2, marks.shape).astype(float)
    kept = Regimes.of(cells, (2,) * 3, marks, device=PROCESSOR, least=LEAST)
    assert kept.counts().tolist() == [0, 57, 20]
    assert [len(rows) for rows in kept.rows] == [20, 57]
    whole = Regimes.of(cells, (2,) * 3, marks, device=PROCESSOR)
    assert whole.counts().tolist() == PLAN[0].tolist()


def test_steps_are_public_and_wide():
    stepped = stepped_rows(COUNTS, LEAST)
    assert (stepped[:LEAST] == 0).all()
    assert sorted(set(stepped.tolist())) == [0, *range(ROW_STEP, MOST + 1, ROW_STEP)]
    assert np.bincount(stepped[:88].astype(int)).tolist().count(0) > 0
    assert min(np.unique(stepped[:88], return_counts=True)[1]) >= LEAST


def test_weighted_beliefs_disclose_a_weight_only_coarsely():
    """Who even knew what two sites believe would solve for their weights, and name the sites."""
    rng = np.random.default_rng(1)
    known = rng.random((2, 1, 3, 3))
    for least, exact in ((1, True), (LEAST, False)):
        answers = [
            weighted_answer(FIRST, own, counts, 300, least=least)
            for own, counts in zip(known, PLAN[:2], strict=True)
        ]
        weighted, weights, *_ = segments(FIRST.encodings, sum(answers))
        one, other = (off_diagonal(own) for own in known)
        solved = (weighted - other * weights) / (one - other)
        counts = MOST * (1 + np.log(np.maximum(solved, 1e-9)) / FIRST.sharpness)
        true = off_diagonal(np.maximum(PLAN[0][:, None], PLAN[0][None, :])[None])
        assert (np.abs(counts - true) < 1e-3).all() == exact


def test_weighted_beliefs_have_no_last_digits():
    answer = weighted_answer(
        FIRST, np.random.default_rng(0).random((1, 3, 3)), PLAN[0], 300, least=LEAST
    )
    coarse = answer * 2.0**FIRST.coarse_bits
    assert np.array_equal(coarse, np.rint(coarse))
