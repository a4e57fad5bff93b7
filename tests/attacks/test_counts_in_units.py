"""What a site can follow about the others from counts of all sites in whole units.

It knows its own rows, and how many rows all sites have. A linear program over all that curves by
three groupings and a description of the same rows open bounds every count of the others. Where rows
miss values, so does another one over the description: how many rows are complete is opened.
"""

import numpy as np
import pytest
from driving import drive
from followed_patients import EDGES, ward, wards
from scipy.optimize import linprog

from cipherdag import Describe, Federation, Policy, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import AggregateRangeError, PolicyRefusedError, SiteUnreachableError
from cipherdag.questions.estimation.rounded_totals import RoundedTotals
from cipherdag.questions.estimation.survival import SurvivalCounts
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.models.survival_rows import counts_up_to
from cipherdag.sites.drafts.inference import infer_schema

UNIT = 11
ASKED = {"time": "months", "event": "died", "edges": EDGES}


def study(rng, followed=False):
    """Counts by grouping, group, end and bin, of the site and of all others, and the totals.

    Where all are ``followed`` until the last edge, few of the others' rows are in one of two
    groups, whose sizes add up to a number that is known.
    """
    n, bins, sites = int(rng.integers(100, 900)), int(rng.integers(5, 13)), int(rng.integers(2, 6))
    groupings = [1, *rng.integers(2, 5, 2)]
    if followed:
        n, bins, groupings = n // 2, 2 + bins // 4, [1, 2]
    site = rng.choice(sites, n, p=rng.dirichlet(np.full(sites, 4.0)))
    ends = rng.random(n) < (rng.uniform(0.1, 0.9) if followed else rng.uniform(0.3, 0.7))
    bin_of = rng.exponential(0.5, n) * bins
    bin_of = np.minimum(bin_of, bins - 1 - rng.integers(2) if followed else bins).astype(int)
    counts = []
    for groups in groupings:
        shares = rng.dirichlet(np.full(groups, 2.0))
        if followed and groups > 1:
            few = min(0.5, rng.uniform(1, 12) / n)
            shares = rng.permutation([few, 1 - few])
        group = rng.choice(groups, n, p=shares)
        both = np.zeros((2, groups, 2, bins + 1), dtype=int)  # the last bin is beyond the edges
        np.add.at(both, (np.minimum(site, 1), group, ends.astype(int), bin_of), 1)
        counts.append(both)
    return counts, n


def opened(groups, bins):
    """Which rows each count of a curve has, by group, end and bin: what a site of one row says."""
    edges = np.arange(1.0, bins + 1.0)
    question = SurvivalCounts(
        categories=(0, 2, groups), time=0, event=1, by=2, complete_in=(2,), edges=edges.tobytes()
    )
    cells = np.array([*np.ndindex(groups, 2, bins + 1)], dtype=float)
    rows = [cells[[k]][:, [2, 1, 0]] + [0.5, 0.0, 0.0] for k in range(len(cells))]
    return np.column_stack([counts_up_to(question, lambda v, r=row: r[:, v]) for row in rows])


def constraints(counts, n_rows, followed=False):
    """Rows of ``low <= A x <= high`` over the counts of the others, of all groupings."""
    sizes = [both[1].size for both in counts]
    starts = np.cumsum([0, *sizes])
    rows, low, high = [], [], []

    def bound(places, least, most):
        row = np.zeros(starts[-1])
        row[places] = 1.0
        rows.append(row)
        low.append(least)
        high.append(most)

    for both, start in zip(counts, starts, strict=False):
        own, others = both
        index = start + np.arange(own.size).reshape(own.shape)
        total = own + others
        for row in opened(own.shape[0], own.shape[2] - 1) > 0:
            units, less = total.ravel()[row].sum() // UNIT, own.ravel()[row].sum()
            bound(start + np.flatnonzero(row), units * UNIT - less, (units + 1) * UNIT - 1 - less)
        exact = n_rows - own.sum()  # how many rows all sites have is told exactly
        bound(index.ravel(), exact, exact)
        if followed:
            bound(index[..., -1].ravel(), 0, 0)
        # a description of times and ends; it tells of the former a part of this
        for place in [*((..., slice(end)) for end in range(1, own.shape[2])), (slice(None), 1)]:
            units, less = total[place].sum() // UNIT, own[place].sum()
            bound(index[place].ravel(), units * UNIT - less, (units + 1) * UNIT - 1 - less)
    matrix = np.array(rows)
    # the same rows in every grouping: of each end in each bin there are as many
    first = np.arange(sizes[0]).reshape(counts[0][1].shape).sum(axis=0)
    same = []
    for both, start in zip(counts[1:], starts[1:], strict=False):
        index = start + np.arange(both[1].size).reshape(both[1].shape)
        for end in range(2):
            for place in range(both.shape[3]):
                row = np.zeros(starts[-1])
                row[index[:, end, place]] = 1.0
                row[first[end, place]] = -1.0
                same.append(row)
    return matrix, np.array(low), np.array(high), np.array(same)


def small_counts(counts, followed=False):
    """Where small counts of the others are, of bins and up to edges; or of whole groups."""
    cells, start = [], 0
    for both in counts:
        others = both[1]
        index = start + np.arange(others.size).reshape(others.shape)
        start += others.size
        places = [
            (group, end, slice(first, place + 1))
            for group, end, place in np.ndindex(others.shape[0], 2, others.shape[2] - 1)
            for first in {0, place}
        ]
        if followed:
            places = [(group, slice(None)) for group in range(len(others)) if len(others) > 1]
        found = [(index[place].ravel(), others[place].sum()) for place in places]
        cells += [(where, count) for where, count in found if 0 < count < UNIT]
    return cells


def values_left(counts, n_rows, rng, most, followed=False):
    """How many values of some small counts of the others fit."""
    matrix, low, high, same = constraints(counts, n_rows, followed)
    cells = small_counts(counts, followed)
    chosen = [cells[k] for k in rng.permutation(len(cells))[:most]]
    left = []
    for places, count in chosen:
        aim = np.zeros(matrix.shape[1])
        aim[places] = 1.0
        left.append(fitting(aim, count, matrix, low, high, same))
    return left


def fitting(aim, count, matrix, low, high, same=None):
    """How many values of a count, which is among them, fit what is known."""
    equal = {} if same is None else {"A_eq": same, "b_eq": np.zeros(len(same))}
    ends = [
        linprog(
            sign * aim,
            A_ub=np.vstack([matrix, -matrix]),
            b_ub=np.concatenate([high, -low]),
            **equal,
        ).fun
        * sign
        for sign in (1.0, -1.0)
    ]
    least, largest = np.ceil(ends[0] - 1e-6), np.floor(ends[1] + 1e-6)
    assert least <= count <= largest
    return largest - least + 1


def test_a_site_is_left_three_values_of_small_counts():
    rng, left = np.random.default_rng(26), []
    for _ in range(25):
        left += values_left(*study(rng), rng, most=12)
    assert len(left) > 250
    assert np.mean(np.array(left) < 3) <= 0.02
    assert np.median(left) >= UNIT - 1


def test_two_groups_of_a_known_number_leave_three_values():
    """All of them are followed to the last edge, as an attacker knows."""
    rng, left = np.random.default_rng(121), []
    for _ in range(300):
        left += values_left(*study(rng, followed=True), rng, most=1, followed=True)
    assert len(left) > 200
    assert np.mean(np.array(left) < 3) <= 0.02
    assert np.median(left) >= UNIT - 2


def incomplete(rng):
    """Rows by category of two columns, or none, of the site and of each of the others."""
    n, sites = int(rng.integers(100, 900)), int(rng.integers(2, 6))
    first, second = 2, int(rng.integers(2, 6))
    site = rng.choice(sites, n, p=rng.dirichlet(np.full(sites, 4.0)))
    codes = []
    for sides in (first, second):
        code = rng.choice(sides, n, p=rng.dirichlet(np.full(sides, 0.5)))
        codes.append(np.where(rng.random(n) < rng.choice([0.0, 0.01, 0.05, 0.3]), sides, code))
    rows = np.zeros((sites, first + 1, second + 1), dtype=int)
    np.add.at(rows, (site, *codes), 1)
    return rows


def described(rows, numbers):
    """What a description tells a site of the others: rows of ``low <= A x <= high``.

    With ``numbers`` columns are of numbers alone, with a mark after each category: the number of
    all rows is opened, else that of complete ones. Of which values the sums are is known, as if the
    others were one site, or no more than their sum.
    """
    own, others, total = rows[0], rows[1:], rows.sum(axis=0)
    matrix, low, high = [], [], []

    def bound(places, least, most):
        row = np.zeros(own.shape)
        row[places] = 1.0
        matrix.append(row.ravel())
        low.append(least)
        high.append(most)

    def rounded(places):
        units, less = total[places].sum() // UNIT, own[places].sum()
        bound(places, units * UNIT - less, (units + 1) * UNIT - 1 - less)

    everything, filled = (slice(None), slice(None)), (slice(-1), slice(-1))
    public = everything if numbers else filled
    exact = others.sum(axis=0)[public].sum()
    bound(public, exact, exact)
    rounded(everything)
    for column, sides in enumerate(own.shape):
        present = (slice(-1), slice(None)) if column == 0 else (slice(None), slice(-1))
        rounded(present)
        for code in range(int(sides == 3 and not numbers), sides - 1):
            which = slice(code + 1) if numbers else code
            rounded((which, slice(None)) if column == 0 else (slice(None), which))
        missing = (-1, slice(None)) if column == 0 else (slice(None), -1)
        if not total[missing].any():
            bound(missing, 0, 0)
        apart = [each[present].sum() - each[public].sum() for each in others]
        steps = sum(int(abs(each) // (2 * UNIT)) for each in apart) * 2 * UNIT
        most = steps + (2 * UNIT - 1) * len(others)
        signed = (-most, -steps) if numbers else (steps, most)
        bound(present, exact + signed[0], exact + signed[1])
    return np.array(matrix), np.array(low), np.array(high)


@pytest.mark.parametrize("trials", [25, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize("numbers", [False, True])
def test_a_description_leaves_three_values_of_small_counts(numbers, trials):
    rng, left = np.random.default_rng(60), []
    for _ in range(trials):
        rows = incomplete(rng)
        others, program = rows[1:].sum(axis=0), described(rows, numbers)
        for column in range(2):
            for code in range(others.shape[column]):
                place = (code, slice(None)) if column == 0 else (slice(None), code)
                if 0 < (count := others[place].sum()) < UNIT:
                    aim = np.zeros(others.shape)
                    aim[place] = 1.0
                    left.append(fitting(aim.ravel(), count, *program))
        if 0 < (count := others.sum() - others[:-1, :-1].sum()) < UNIT:
            aim = np.ones(others.shape)
            aim[:-1, :-1] = 0.0
            left.append(fitting(aim.ravel(), count, *program))
    assert len(left) > trials
    assert np.mean(np.array(left) < 3) <= 0.02
    assert np.median(left) >= UNIT - 1


def views(data, least):
    federation = Federation.simulate(data, schema=infer_schema([*data.values()]), device="cpu")
    return [SiteView.of_table(s.table, min_cell_size=least, device="cpu") for s in federation.sites]


def facts(n_sites):
    return Facts(4, n_sites, names=("age", "arm", "died", "months"), min_contributors=2)


def counted(data, least=UNIT, units=b"\0" * 8, **changes):
    """A question of this study about its first count, and the sites."""
    sites = views(data, least)
    fields = {"categories": sites[0].categories, "time": 3, "event": 2}
    question = SurvivalCounts(**fields, edges=np.array(EDGES).tobytes())
    asked = {"unit": UNIT, "units": units, "comparisons": 1}
    return RoundedTotals(question, **(asked | changes)), sites


def test_a_site_answers_no_smaller_unit_and_no_exact_sum():
    question, (site, *_) = counted(wards(), unit=UNIT - 1)
    for asked in (question, question.question):
        with pytest.raises(PolicyRefusedError):
            site.answer(asked)
    question, (site, *_) = counted(wards(), unit=UNIT)
    assert len(site.answer(question)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": 1},
        {"unit": 257},
        {"units": b""},
        {"units": b"\0" * 7},
        {"comparisons": 0},
        {"comparisons": 2},
        {"first": -1},
        {"first": 2 * len(EDGES) + 1},
        {"units": b"\xff" * 8},
        {"units": b"\xff" * 7 + b"\0"},
    ],
)
def test_a_hostile_question_about_totals_cannot_be_made(changes):
    with pytest.raises(ValueError, match="."):
        counted(wards(), **changes)


class Liar:
    """A site that answers as another one, and adds what it likes to words of its counts."""

    def __init__(self, site, added):
        self._site, self._added = site, added

    def answer(self, question):
        answer = self._site.answer(question)
        if not isinstance(question, RoundedTotals):
            return answer
        return np.maximum(answer + self._added[: len(answer)], 0)


def test_invented_rows_move_floors_and_show_nothing_else():
    *honest, site = views(wards(), UNIT)
    (plain, _), (lied, asked) = (
        drive(Survival(**ASKED).ask(facts(3)), [*honest, Liar(site, np.full(15, more))])
        for more in (0, 7)
    )
    assert any(isinstance(one, RoundedTotals) for one in asked)
    for before, after in zip(plain.counts, lied.counts, strict=True):
        for one, other in ((before.events, after.events), (before.gone, after.gone)):
            assert set((other.least - one.least).tolist()) <= {0, UNIT}


def test_invented_rows_move_a_description_by_a_unit():
    *honest, site = views(wards(), UNIT)
    plain, lied = (
        drive(Describe().ask(facts(3)), [*honest, Liar(site, np.full(2048, more))])[0].summaries
        for more in (0, 7)
    )
    assert lied.rows - plain.rows in (0, UNIT)
    for before, after in zip(plain.columns, lied.columns, strict=True):
        assert after.n_rows - before.n_rows in (0, UNIT)
        changes = np.subtract(after.counts, before.counts)
        assert np.isin(changes, (-UNIT, 0, UNIT)).all()
        assert (before.mean, before.deviation) == (after.mean, after.deviation)


def test_invented_counts_of_categories_end_a_description():
    *honest, site = views(wards(), UNIT)
    added = np.zeros(2048, dtype=np.int64)
    added[5] = 5000  # more rows of a category than all sites have
    with pytest.raises(AggregateRangeError, match="more values than rows"):
        drive(Describe().ask(facts(3)), [*honest, Liar(site, added)])


def test_invented_counts_that_cannot_be_end_the_run():
    *honest, site = views(wards(), UNIT)
    added = np.zeros(15, dtype=np.int64)
    added[0] = 500  # more events up to the first edge than up to the second
    with pytest.raises(AggregateRangeError, match="more rows end than there are"):
        drive(Survival(**ASKED).ask(facts(3)), [*honest, Liar(site, added)])


def test_four_runs_with_invented_rows_find_a_count():
    """What approvals and max_runs are for: each run halves the range of eleven counts."""
    for count in range(UNIT):
        least, most = 0, UNIT - 1
        for _ in range(4):
            middle = (least + most + 1) // 2
            if (count + UNIT - middle) // UNIT:
                least = max(middle, least)
            else:
                most = min(middle - 1, most)
        assert least == most == count


def test_a_departure_within_the_search_ends_the_run():
    sites, known = views(wards(), UNIT), facts(3)

    class Leaving(Liar):
        steps = 0

        def answer(self, question):
            self.steps += question.opens_bits
            known.present.n_sites -= self.steps == 2
            return super().answer(question)

    leaving = Leaving(sites[2], np.zeros(15, dtype=np.int64))
    with pytest.raises(SiteUnreachableError, match="a site left"):
        drive(Survival(**ASKED).ask(known), [*sites[:2], leaving])
    assert leaving.steps == 2


@pytest.mark.parametrize("n_sites", [2, 3])
def test_two_and_three_sites_are_asked_for_totals_too(n_sites):
    data = {name: ward(150, k) for k, name in zip(range(n_sites), "abc", strict=False)}
    policy = Policy(min_sites=2, tolerated_colluders=min(1, n_sites - 2))
    found = Federation.simulate(data, policy=policy, device="cpu").run(Survival(**ASKED))
    (curve,) = found.finding.curves
    assert found.finding.rounded_to == UNIT
    rows = 150 * n_sites // UNIT * UNIT
    assert curve.rows == (rows, rows + UNIT - 1)
