"""Totals in whole units: the floors of any counts, from comparisons with multiples of the unit."""

import numpy as np
from driving import answered, plain_verdicts
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.questions.estimation.rounded_totals import (
    COUNTS_AT_ONCE,
    LARGEST_UNIT,
    MOST_PARTS,
    CellSizes,
    RoundedTotals,
    rounded_totals,
)
from cipherdag.questions.estimation.survival import SurvivalCounts


def counting(bins, groups=1):
    about = {"categories": (0, 2, groups), "time": 0, "event": 1, "max_rows": 1 << 16}
    of = {"by": 2, "complete_in": (2,)} if groups > 1 else {}
    return SurvivalCounts(**about, **of, edges=np.arange(1.0, bins + 1).tobytes())


def searched(question, counts, unit, most):
    """The floors that are found of the sites' counts, and all that was asked."""
    return answered(
        rounded_totals(question, unit, most),
        lambda one: plain_verdicts(one, np.array([one.words(site) for site in counts])),
    )


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_floors_are_those_of_the_totals(data):
    bins, unit = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 40))
    question = counting(bins)
    counts = data.draw(
        st.lists(
            st.lists(
                st.integers(0, 1 << 16), min_size=question.n_counts, max_size=question.n_counts
            ),
            min_size=1,
            max_size=5,
        )
    )
    counts = np.array(counts, dtype=np.float64)
    total = counts.sum(axis=0).astype(np.int64)
    most = int(total.max()) + data.draw(st.integers(0, 300))
    floors, asked = searched(question, counts, unit, most)
    assert floors.tolist() == (total // unit).tolist()
    # no comparison but with whole units, and no more rounds than parts of eight need
    values = most // unit + 1
    assert MOST_PARTS ** (len(asked) - 1) <= max(values - 1, 1)
    for one, _ in asked:
        assert isinstance(one, RoundedTotals)
        assert one.comparisons < MOST_PARTS
        assert ((1 - one.predicates(2).constants) % unit == 0).all()


def test_many_counts_are_looked_for_in_several_rounds():
    question = counting(20, groups=64)
    counts = np.arange(question.n_counts, dtype=np.float64)[None] % 60
    floors, asked = searched(question, counts, 7, 60)
    assert floors.tolist() == (counts[0] // 7).tolist()
    assert {one.first for one, _ in asked} == {0, COUNTS_AT_ONCE}


@given(st.lists(st.integers(0, LARGEST_UNIT), min_size=1, max_size=5))
def test_the_unit_is_the_largest_min_cell_size(sizes):
    question = CellSizes()
    opened = np.max([question.answer_of(size) for size in sizes], axis=0)
    assert question.largest(opened) == max(2, *sizes)
