"""Verdicts at a second level: the middles that they leave, and that nothing is opened for them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from driving import drive
from evidence_sites import cut, discrete_codes, discrete_site, gaussian_site, gaussian_values

from cipherdag import Federation, FedPC
from cipherdag.algorithms.evidence.closed import DOUBTED, FLOOR, graded
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import CITestSpec
from cipherdag.questions.verdicts import CellVerdicts

ALPHA = 0.05
N_SITES = 5
TESTS = [
    np.array([[a, b] for a in range(6) for b in range(a)]),
    np.array([[a, b, c] for a in range(6) for b in range(a) for c in range(6) if c not in (a, b)]),
]
STRONG, WEAK, NONE = DOUBTED**0.5, (ALPHA * DOUBTED) ** 0.5, ALPHA * FLOOR**0.5


def sites_of(kind, rng):
    if kind == "numbers":
        parts = cut(gaussian_values(rng, 600, 6), N_SITES, rng)
        return [gaussian_site(own) for own in parts]
    codes = discrete_codes(rng, 900, (2, 3, 2, 2, 3, 2))
    return [discrete_site(own, (2, 3, 2, 2, 3, 2)) for own in cut(codes, N_SITES, rng)]


def asking(*, closed, leaving=0, again=TESTS):
    """Tests, and then their grades; ``leaving`` sites are gone in between."""
    present = Presence(N_SITES)
    own = EvidenceSettings(
        spec=CITestSpec(alpha=ALPHA, min_rows_per_cell=1e-6), n_variables=6, max_rows=1 << 12,
        present=present, fewest=3,
    )  # fmt: skip
    source = yield from EVIDENCE["stratified"].source(own, closed=closed)
    first = yield from source.p_values(TESTS)
    present.n_sites -= leaving
    found = yield from graded(source, again, ALPHA)
    return np.concatenate(first), np.concatenate(found)


def of(kind, seed, **more):
    """First answers, grades, and the questions that these took."""
    sites = sites_of(kind, np.random.default_rng(seed))
    (first, found), questions = drive(asking(**more), sites)
    _, before = drive(asking(**more | {"again": [rows[:0] for rows in TESTS]}), sites)
    return first, found, questions[len(before) :]


@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_grades_are_the_middles_of_what_two_verdicts_leave(kind):
    graded_as = {NONE: (0.0, ALPHA), WEAK: (ALPHA, DOUBTED), STRONG: (DOUBTED, 1.0)}
    found, p_values = [], []
    for seed in range(4):
        verdicts, own, _ = of(kind, seed, closed=True)
        found.append(own)
        p_values.append(of(kind, seed, closed=False)[0])
        assert ((own == NONE) == (verdicts == 0.0)).all()
    found, p_values = np.concatenate(found), np.concatenate(p_values)
    assert {*np.unique(found)} == {*graded_as}
    low, high = np.array([graded_as[own] for own in found]).T
    # cells one by one are another test of the same tables
    assert ((low <= p_values) & (p_values <= high)).mean() > (0.99 if kind == "numbers" else 0.8)


def test_of_opened_sums_a_grade_is_the_p_value():
    first, found, later = of("numbers", 0, closed=False)
    assert (first == found).all()
    assert later == []


@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_nothing_is_counted_or_opened_for_the_second_level(kind):
    first, _, later = of(kind, 1, closed=True)
    asked = [part for question in later for part in parts_of(question)]
    assert asked
    assert {type(own) for own in asked} == {CellVerdicts}
    assert (first == 1.0).any()


@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_what_was_opened_of_a_pair_is_not_taken_for_that_of_another_test(kind):
    """(1, 2) given nothing and (0, 1) given 2 name the same three positions but for a 0."""
    pair, other = [np.array([[1, 2]])], [np.zeros((0, 2), dtype=np.int64), np.array([[0, 1, 2]])]
    own = EvidenceSettings(
        spec=CITestSpec(alpha=ALPHA, min_rows_per_cell=1e-6), n_variables=6, max_rows=1 << 12,
        present=Presence(N_SITES), fewest=3,
    )  # fmt: skip

    def asking(*rounds):
        source = yield from EVIDENCE["stratified"].source(own, closed=True)
        for tests in rounds:
            yield from source.p_values(tests)

    sites = sites_of(kind, np.random.default_rng(5))
    both, first, second = (
        [type(own) for question in drive(asking(*rounds), sites)[1] for own in parts_of(question)]
        for rounds in ((pair, other), (pair,), (other,))
    )
    assert both == [*first, *second[1:]], "but for the columns, each test asks as if it were alone"


@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_where_a_site_has_left_in_between_nothing_is_asked(kind):
    given_something = [TESTS[0][:0], TESTS[1]]
    first, found, later = of(kind, 1, closed=True, leaving=1, again=given_something)
    assert later == []
    independent = first[len(TESTS[0]) :] == 1.0
    assert independent.any()
    assert (found[independent] == WEAK).all()
    assert (found[~independent] == NONE).all()


def people(rng, rows, gaps):
    numbers = rng.normal(size=(rows, 5)).cumsum(axis=1)
    table = pd.DataFrame(numbers, columns=[f"v{k}" for k in range(5)])
    table = table.mask(rng.random(table.shape) < gaps)
    return table.assign(sex=rng.choice(["f", "m"], rows))


@pytest.mark.parametrize(
    ("rows", "gaps"), [((600, 600, 600), 0.25), ((9, 10, 9, 10, 10), 0.0), ((300, 700, 20), 0.0)]
)
def test_rows_with_gaps_and_sites_of_few_rows_are_compared_as_they_are_summed(rows, gaps):
    """Of such the number of all rows is not told, so that bounds cannot rest on it."""
    rng = np.random.default_rng(2)
    sites = {f"s{k}": people(rng, own, gaps) for k, own in enumerate(rows)}
    federation = Federation.simulate(sites, device="cpu")
    opened, closed = (federation.run(FedPC(reveal=own), seed=0) for own in ("sums", "verdicts"))
    assert (opened.graph.skeleton() == closed.graph.skeleton()).all()
