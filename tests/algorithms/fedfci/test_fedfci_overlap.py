"""FedFCI where no site measured all variables: what it says is true; what it cannot, it marks."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from driving import drive, respondent
from oracle import random_dag
from test_fedfci import HiddenOracle, ancestors_of, assert_sound, case, oracle_outcome, true_pag

from cipherdag import FedFCI, Knowledge
from cipherdag.algorithms.algorithm import Facts
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL
from cipherdag.questions.presence import Measured

ALGORITHM = FedFCI(evidence="fisher", max_cond_size=None)


def overlapping(seed, observed):
    """Two or three groups of three sites, each of which lacks one or two variables."""
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(2, 4))
    own = [
        tuple(sorted(rng.permutation(observed)[: rng.integers(1, 3)].tolist()))
        for _ in range(groups)
    ]
    return Measured(tuple(less for less in own for _ in range(3)))


def outcome_of(dag, observed, hidden, measured, algorithm=ALGORITHM, names=()):
    n_sites = len(measured.lacking)
    site = respondent(HiddenOracle(dag, observed, range(observed + hidden, len(dag))))
    facts = Facts(observed, n_sites, names, min_contributors=3, measured=measured)
    return drive(algorithm.ask(facts), [site] * n_sites)


@pytest.mark.parametrize("selection", [False, True])
def test_every_mark_is_true_under_an_oracle_and_no_true_edge_is_lost(selection):
    algorithm = FedFCI(evidence="fisher", max_cond_size=None, selection=selection)
    told = 0
    for seed in range(60):
        dag, observed, hidden = case(seed, selection=selection, largest=9)
        measured = overlapping(seed, observed)
        outcome, _ = outcome_of(dag, observed, hidden, measured, algorithm)
        assert_sound(outcome.marks, dag, observed, hidden)
        told += int(np.isin(outcome.marks, (ARROW, TAIL)).sum())
        assert (outcome.untested == measured.never(outcome.marks != NONE)).all()
        assert (outcome.marks[outcome.untested] == CIRCLE).all()
    assert told > 60


def test_where_all_was_measured_together_all_rules_are_applied():
    for seed in range(20):
        dag, observed, hidden = case(seed)
        everywhere = Measured(((),) * 3)
        outcome, _ = outcome_of(dag, observed, hidden, everywhere)
        assert (outcome.marks == true_pag(dag, observed, hidden)).all()
        assert (outcome.marks == oracle_outcome(ALGORITHM, dag, observed, hidden)[0].marks).all()


def test_nothing_is_asked_that_no_site_measured_together():
    rng = np.random.default_rng(0)
    dag = random_dag(7, 3.0, rng)
    measured = Measured(((0, 5),) * 3 + ((3,),) * 3)
    _, asked = outcome_of(dag, 7, 0, measured)
    tests = [block for question in asked for block in question.question.rows()]
    assert sum(map(len, tests)) > 20
    assert all(measured.together(rows.astype(np.int64)).all() for rows in tests)


def test_a_middle_never_measured_with_the_set_makes_no_collider():
    """x <- c -> a -> b, or x -> c -> a -> b: where c is not measured, a separates x and b."""
    dag = np.zeros((4, 4), dtype=bool)
    x, c, a, b = range(4)
    dag[x, c] = dag[c, a] = dag[a, b] = True
    outcome, _ = outcome_of(dag, 4, 0, Measured(((c,),) * 3 + ((a,),) * 3))
    assert outcome.marks[x, a] == outcome.marks[b, a] == CIRCLE
    assert not outcome.colliders


def test_what_is_known_directs_more_and_nothing_wrong():
    """True tiers and a true required edge, be its ends measured together or not."""
    told, apart = Counter(), 0
    for seed in range(60):
        dag, observed, hidden = case(seed, largest=9)
        measured, names = overlapping(seed, observed), tuple(f"v{v}" for v in range(observed))
        above = [ancestors_of(dag, {v}) for v in range(len(dag))]
        order = sorted(range(observed), key=lambda v: (len(above[v]), v))
        early, late = order[: observed // 2], order[observed // 2 :]
        if any(v in above[u] for u in early for v in late):
            continue
        tiers = tuple(tuple(names[v] for v in own) for own in (early, late))
        arcs = np.argwhere(dag[:observed, :observed]).tolist()[:1]
        required = tuple((names[a], names[b]) for a, b in arcs)
        apart += sum(not measured.has(own) for own in arcs)
        for knowledge in (None, Knowledge(tiers=tiers, required=required)):
            algorithm = replace(ALGORITHM, knowledge=knowledge)
            outcome, asked = outcome_of(dag, observed, hidden, measured, algorithm, names)
            assert_sound(outcome.marks, dag, observed, hidden)
            told[knowledge is None] += int(np.isin(outcome.marks, (ARROW, TAIL)).sum())
            tests = [block for question in asked for block in question.question.rows()]
            assert all(measured.together(rows.astype(np.int64)).all() for rows in tests)
    assert told[False] > 1.5 * told[True] > 20
    assert apart > 1
