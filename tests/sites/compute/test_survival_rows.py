"""What a site answers about times until an event: counts by edges, and the sums of a test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.duration.survfunc import survdiff

from cipherdag.questions.estimation.survival import LogRankSums, SurvivalCounts
from cipherdag.sites.compute.models.survival_rows import (
    counts_up_to,
    log_rank_sums,
    survival_counts,
)

EDGES = (1.0, 2.0, 3.0, 5.0)


def about(groups):
    return {"categories": (0, 2, groups), "time": 0, "event": 1, "by": 2, "complete_in": (2,)}


def question(groups, **changes):
    return SurvivalCounts(**about(groups) | {"edges": np.array(EDGES).tobytes()} | changes)


@st.composite
def rows(draw):
    n, groups = draw(st.integers(0, 60)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.floats(0.0, 1.0))
    return (
        np.column_stack(
            [
                rng.exponential(draw(st.sampled_from([0.5, 2.0, 20.0])), n),
                rng.random(n) < share,
                rng.integers(0, groups, n) * (rng.random(n) < draw(st.floats(0.0, 1.0))),
            ]
        ),
        groups,
    )


@given(rows())
@settings(max_examples=200, deadline=None)
def test_counts_up_to_edges_are_those_of_all_rows(drawn):
    table, groups = drawn
    counts = counts_up_to(question(groups), lambda v: table[:, v])
    events, gone = counts[:-groups].reshape(2, groups, -1)
    for group in range(groups):
        chosen = table[table[:, 2] == group]
        counted = table if (group, groups) == (0, 2) else chosen  # the first of two with the other
        assert counts[group - groups] == len(counted)
        assert gone[group].tolist() == [(counted[:, 0] <= edge).sum() for edge in EDGES]
        ended = chosen[chosen[:, 1] == 1, 0]
        assert events[group].tolist() == [(ended <= edge).sum() for edge in EDGES]


@given(rows(), st.integers(0, 8), st.sampled_from([(), (0, 1), (1, 2), (0, 1, 2)]))
@settings(max_examples=200, deadline=None)
def test_a_test_is_of_sites_without_few_events_or_others(drawn, least, compared):
    table, groups = drawn
    compared = compared if groups > max(compared, default=0) else ()
    asked = LogRankSums(**about(groups), compared=compared)
    answer = log_rank_sums(asked, lambda v: table[:, v], min_cell_size=least)
    truly = [
        np.bincount(table[table[:, 1] == way, 2].astype(int), minlength=groups) for way in (1, 0)
    ]
    able = [
        any(counts) and all(not 0 < count < least for count in counts)
        for counts in zip(*truly, strict=True)
    ]
    assert (answer[-groups - 1 : -1] > 0).tolist() == able
    assert answer[-1] == (bool(compared) and all(able[k] for k in compared))
    assert len(answer) == asked.n_values
    if not answer[-1]:
        assert not answer[1 : -groups - 1].any()


def test_without_restrictions_all_rows_are_counted():
    rng = np.random.default_rng(2)
    table = np.column_stack([rng.exponential(2.0, 50), rng.random(50) < 0.5, np.zeros(50)])
    table[3, 0] = np.nan
    table[0, :2] = 3.0, 1.0  # on an edge: in the bin below it
    answer = survival_counts(question(1), lambda v: table[:, v])
    present = table[~np.isnan(table[:, 0])]
    up_to = [(present[:, 0] <= edge) & (present[:, 1] == 1) for edge in EDGES]
    assert np.cumsum(answer[:4]).tolist() == [own.sum() for own in up_to]
    assert answer[4:8].tolist() == [(present[:, 0] > low).sum() for low in (0.0, *EDGES[:-1])]
    assert answer[8:].tolist() == [0.0] * 4 + [1.0, 0.0]


def test_times_below_0_are_told_by_a_flag_and_nothing_else():
    table = np.column_stack([np.append(np.ones(20), -0.5), np.arange(21) % 2, np.zeros(21)])
    answer = survival_counts(question(1), lambda v: table[:, v])
    assert answer.tolist() == [0.0] * 8 + [1.0] + [0.0] * 5


@pytest.mark.parametrize(
    "changes",
    [
        {"edges": np.array([1.0, 1.0]).tobytes()},
        {"edges": np.array([0.0, 1.0]).tobytes()},
        {"edges": np.array([1.0, np.nan]).tobytes()},
        {"edges": b""},
        {"edges": b"1234567"},
        {"edges": np.arange(1.0, 1026.0).tobytes()},
        {"time": 3},
        {"time": 1},
        {"event": 2},
        {"event": -1},
        {"code": 2},
        {"by": 1},
        {"by": 2, "complete_in": ()},
        {"complete_in": (2, 2)},
        {"complete_in": (0, 2)},
        {"categories": (0, 2, 65)},
        {"max_rows": 1},
        {"compared": (1,)},
        {"compared": (1, 0)},
        {"compared": (0, 0)},
        {"compared": (-1, 0)},
        {"compared": (1, 3)},
    ],
)
def test_a_hostile_question_cannot_be_made(changes):
    with pytest.raises(ValueError, match="."):
        question(3, **changes)


def patients(rng, n=120):
    """Two groups, of which every third row has the event, at times that nobody else has."""
    return np.column_stack([rng.exponential(2.0, n), np.arange(n) % 3 == 0, rng.integers(0, 2, n)])


def log_rank_part(table, *, least, spread=1.0):
    asked = LogRankSums(**about(2), compared=(0, 1))
    answer = log_rank_sums(asked, lambda v: table[:, v], min_cell_size=least, noise=spread)
    return answer[1:3], answer[3:6]


def test_who_knows_all_rows_but_one_does_not_see_when_its_event_was():
    """Of exact sums nearly every place of the row gives others; of told ones hardly any does."""
    rng = np.random.default_rng(5)
    table = patients(rng)
    times = np.sort(rng.uniform(1.0, 2.0, 40))  # all in one bin, so that no count tells it
    exact, told = set(), set()
    for time in times:
        table[0, 0] = time
        exact.add(tuple(np.concatenate(log_rank_part(table, least=0))))
        told.add(tuple(np.concatenate(log_rank_part(table, least=11, spread=1.07))))
    assert len(exact) > 12
    assert len(told) <= 4


def test_a_site_tells_of_all_groups_that_are_compared_or_of_none():
    """Of the other groups as of any: they take no part in the test."""
    table = patients(np.random.default_rng(3))
    table[:40, 2] = 2
    part = question(3, compared=(0, 1))
    answer = survival_counts(part, lambda v: table[:, v])
    assert answer[-4:].tolist() == [1.0, 1.0, 1.0, 1.0]
    observed, expected, upper = np.split(answer[2 * 3 * len(EDGES) + 1 : -4], [3, 6])
    two = table[40:]
    known = survdiff(two[:, 0], two[:, 1], two[:, 2].astype(int))[0]
    assert (observed - expected)[0] ** 2 / upper[0] == pytest.approx(known, rel=1e-9)
    assert observed[2] == expected[2] == upper[[2, 4, 5]].any() == 0.0
    same = LogRankSums(**about(3), compared=(0, 1))
    excess = log_rank_sums(same, lambda v: table[:, v], min_cell_size=0)
    assert excess[1:4].tolist() == (observed - expected).tolist()
    assert excess[4:10].tolist() == upper.tolist()
    table[table[:, 2] == 1, 2] = 0
    answer = survival_counts(part, lambda v: table[:, v])
    assert answer[-4:].tolist() == [0.0, 0.0, 1.0, 0.0]
    cells = answer[: 2 * 3 * len(EDGES)].reshape(2, 3, -1)
    assert not cells[:, :2].any()
    assert cells[:, 2].any()


def test_the_test_is_opened_only_with_all_of_its_groups():
    asked = question(3, compared=(0, 2))
    cells = 2 * 3 * len(EDGES)
    alone = LogRankSums(**about(3), compared=(0, 2))
    for chosen, tested in (((1, 0, 1, 1), True), ((1, 1, 0, 1), False), ((1, 1, 1, 0), False)):
        told = asked.value_mask(np.array(chosen, dtype=bool))
        assert set(told[cells + 1 : -4].tolist()) == {tested}
        told = alone.value_mask(np.array(chosen, dtype=bool))
        assert told[0]
        assert set(told[1:-4].tolist()) == {tested}


@given(st.integers(0, 2**32), st.floats(0.81, 1.21))
@settings(max_examples=100, deadline=None)
def test_what_the_test_tells_adds_up_and_is_near(seed, spread):
    table = patients(np.random.default_rng(seed))
    plain, told = (log_rank_part(table, least=own, spread=spread) for own in (0, 11))
    if not told[1].any():
        return
    assert told[0].sum() == 0.0
    assert abs(told[0] - plain[0]).max() <= 2 / 32 + 1e-9
    assert (told[0] * 16 == np.rint(told[0] * 16)).all()
    assert told[1].tolist() == [told[1][2], -told[1][2], told[1][2]]
    assert abs(told[1] - spread * plain[1]).max() <= 1 / 32 + 1e-9
