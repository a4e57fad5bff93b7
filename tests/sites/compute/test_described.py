"""What a site tells of its columns: as much as it can, and never a few rows apart."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import pack_integers, segments
from cipherdag.questions.pooled_data import Columns, SmallCells, Tables
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.descriptions.described import (
    DescribedColumns,
    snap_to_safe_counts,
    suppress_small_counts,
)
from cipherdag.sites.compute.descriptions.site_comparison import site_outliers
from cipherdag.sites.compute.rows import Rows

COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=12)
LEAST = st.integers(0, 12)
MARKS = np.linspace(-2.0, 2.0, 9)


def apart(count, least):
    return 0 < count < least


def scales_of(categories):
    numbers = categories.count(0)
    return {
        "categories": categories,
        "origins": np.zeros(numbers).tobytes(),
        "units": pack_integers(np.zeros(numbers, dtype=np.int64)),
    }


def sums_of(categories):
    return ColumnSums(**scales_of(categories))


def counts_of(categories, marks=MARKS):
    packed = np.tile(marks, (categories.count(0), 1)).astype("<f8").tobytes()
    return ValueCounts(**scales_of(categories), marks=packed)


@given(COUNTS, LEAST)
def test_no_category_and_no_rest_is_of_few_rows(counts, least):
    counts = np.array(counts)
    told = suppress_small_counts(counts, least)
    assert ((told == 0) | (told == counts)).all()
    assert not ((told > 0) & (told < least)).any()
    left = int((counts - told).sum())
    assert not apart(left, least) or counts.sum() < least
    if not ((counts > 0) & (counts < least)).any():
        assert (told == counts).all()


@given(COUNTS, st.integers(0, 30), LEAST)
def test_no_two_counts_up_to_marks_are_few_apart(cells, last, least):
    up_to = np.cumsum(cells)
    total = int(up_to[-1]) + last
    told = snap_to_safe_counts(up_to, total, least if total >= least else 0)
    between = np.diff(np.concatenate([[0], told, [total]]))
    assert (between >= 0).all()
    if total >= least:
        assert not ((between > 0) & (between < least)).any()
        assert (np.abs(told - up_to) < max(least, 1)).all()
    wide = np.diff(np.concatenate([[0], up_to, [total]]))
    if not ((wide > 0) & (wide < least)).any():
        assert (told == up_to).all()


@st.composite
def sites(draw):
    """Codes and numbers of a site, some missing, and the smallest count that it tells."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["numbers", "codes", "both"]))
    categories = {"numbers": (0, 0), "codes": (2, 3, 4), "both": (3, 0, 2, 0)}[kind]
    n, least = draw(st.integers(12, 60)), draw(st.integers(2, 6))
    codes = values = None
    gaps = [rng.random(n) < draw(st.sampled_from([0.0, 0.04, 0.2, 0.8, 1.0])) for _ in categories]
    if any(categories):
        codes = np.full((n, len(categories)), -1, dtype=np.int16)
    if 0 in categories:
        values = np.full((n, len(categories)), np.nan)
    for v, (own, gap) in enumerate(zip(categories, gaps, strict=True)):
        if own:
            shares = rng.dirichlet(np.full(own, 0.6))
            codes[:, v] = np.where(gap, -1, rng.choice(own, n, p=shares))
        else:
            values[:, v] = np.where(gap, np.nan, rng.normal(size=n).round(1))
    return codes, values, categories, least


def told(site):
    """Rows, values, counts and rests that a site tells, by column; None where it refuses."""
    codes, values, categories, least = site
    pool = SiteView(codes, values, categories, min_cell_size=least)
    try:
        first = segments(sums_of(categories).encodings, pool.answer(sums_of(categories)))
    except PolicyRefusedError:
        return None
    question = counts_of(categories)
    counts, tells = segments(question.encodings, pool.answer(question))
    totals = first[-1]
    assert (tells == (totals > 0)).all()
    parts = np.split(counts, np.cumsum(question.widths())[:-1])
    return pool, int(first[0][0]), totals.astype(int), [own.astype(int) for own in parts]


@settings(max_examples=400, deadline=None)
@given(sites())
def test_nothing_that_follows_from_all_that_is_told_is_of_few_rows(site):
    """By subtraction, too: of columns, of marks, and of what tables of other runs tell."""
    codes, values, categories, least = site
    answered = told(site)
    if answered is None:
        return
    pool, rows, totals, parts = answered
    elsewhere = int(pool.answer(Columns(n_variables=len(categories)))[1])
    assert not apart(elsewhere, least)
    assert not apart(rows, least)
    assert not apart(abs(rows - elsewhere), least)
    for v, (total, own) in enumerate(zip(totals.tolist(), parts, strict=True)):
        assert not apart(total, least)
        assert not apart(rows - total, least)
        if codes is not None and elsewhere and total:  # moments are of complete rows, too
            assert not apart(abs(total - elsewhere), least)
        if codes is None and not np.isnan(values[:, v]).any():
            assert total == rows
        if not categories[v]:
            cells = np.diff(np.concatenate([[0], own, [total]]))
            assert not ((cells > 0) & (cells < least)).any()
            continue
        assert not ((own > 0) & (own < least)).any()
        assert not apart(total - own.sum(), least)
        if (other := table(pool, categories, v)) is not None and total:
            beside = (own - other)[own > 0]
            assert not ((np.abs(beside) > 0) & (np.abs(beside) < least)).any()


def table(pool, categories, variable):
    """The counts of a variable as other algorithms are told them; None where they are withheld."""
    about = {"categories": categories, "counts": (1,), "members": np.uint16(variable).tobytes()}
    if not pool.rows or pool.answer(SmallCells(**about))[0]:
        return None
    return pool.answer(Tables(**about)).astype(int)


@settings(max_examples=100, deadline=None)
@given(sites())
def test_without_restriction_everything_is_told_exactly(site):
    codes, values, categories, _ = site
    _, rows, totals, parts = told((codes, values, categories, 0))
    array = values if codes is None else codes
    assert rows == len(array)
    for v, own in enumerate(categories):
        if own:
            present = codes[codes[:, v] >= 0, v]
            expected = np.bincount(present, minlength=own)
        else:
            present = values[~np.isnan(values[:, v]), v]
            expected = (present[:, None] <= MARKS).sum(axis=0)
        assert totals[v] == len(present)
        assert (parts[v] == expected).all()


@settings(max_examples=100, deadline=None)
@given(sites(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(site, source):
    codes, values, categories, least = site
    order = list(range(len(values if codes is None else codes)))
    source.shuffle(order)
    turned = [None if own is None else own[order] for own in (codes, values)]
    first, second = told(site), told((*turned, categories, least))
    assert (first is None) == (second is None)
    if first is not None:
        assert first[1] == second[1]
        assert (first[2] == second[2]).all()
        for own, other in zip(first[3], second[3], strict=True):
            assert (own == other).all()


def numbers(n, missing, least):
    values = np.random.default_rng(0).normal(50.0, 10.0, (n, 1))
    values[:missing] = np.nan
    return values, DescribedColumns(Rows(None, values, np.array([0])), min_cell_size=least)


@pytest.mark.parametrize("missing", [1, 2, 6, 10, 11])
def test_whoever_misses_fewer_than_11_values_seems_to_miss_11(missing):
    _, own = numbers(400, missing, 11)
    *_, flags, used = segments(sums_of((0,)).encodings, own.answer(sums_of((0,))))
    assert used[0] == 400 - 11
    assert flags[1] == (missing < 11)


def test_the_comparison_of_sites_tells_as_many_values_of_numbers():
    values, _ = numbers(400, 3, 11)
    question = SiteDifferences(
        categories=(0,), origins=bytes(8), units=bytes(8), counts=(1,), members=bytes(2)
    )
    pool = SiteView(None, values, (0,), min_cell_size=11)
    assert segments(question.encodings, pool.answer(question))[-1].tolist() == [4 * 389 + 2]
    pool = SiteView(None, values, (0,))
    assert segments(question.encodings, pool.answer(question))[-1].tolist() == [4 * 397 + 2]


def test_a_site_s_own_note_counts_all_rows_of_its_file():
    """Of a code some rows are left out beside one missing value; the site's screen has them all."""
    values = np.r_[np.full(3, -999.0), np.random.default_rng(0).normal(75.0, 10.0, 90), np.nan]
    question = SiteDifferences(
        categories=(0,), origins=bytes(8), units=bytes(8), counts=(1,), members=bytes(2)
    )
    columns = (SimpleNamespace(name="weight"),)
    for _ in range(40):
        values = np.delete(values, 10)
        pool = SiteView(None, values[:, None], (0,), min_cell_size=11)
        ((name, said),) = site_outliers(
            question,
            pool.answer(question),
            pool.disclosable_column,
            pool.cell_keys,
            raw=pool.raw_column,
            min_cell_size=11,
            columns=columns,
        )
        assert name == "weight"
        assert said.startswith("3 values are -999, and all others lie between")


def test_few_missing_values_leave_mean_and_spread_nearly_the_same():
    values, own = numbers(400, 1, 11)
    present, kept = values[~np.isnan(values)], own.column(0)
    kept = kept[~np.isnan(kept)]
    assert len(kept) == 389
    assert abs(kept.mean() - present.mean()) < 0.01 * present.std()
    assert abs(kept.std() - present.std()) < 0.02 * present.std()


def test_a_number_far_too_large_leaves_its_column_out_and_says_so():
    values = np.random.default_rng(0).normal(size=(50, 2))
    values[7, 1] = 1e9
    own = DescribedColumns(Rows(None, values, np.array([0, 0])), min_cell_size=0)
    question = sums_of((0, 0))
    _, first, _, flags, used = segments(question.encodings, own.answer(question))
    assert used.tolist() == [50, 0]
    assert flags.tolist() == [0, 0, 0, 0, 1, 0, 0]
    assert first[1] == 0.0
    counts, tells = segments(counts_of((0, 0)).encodings, own.answer(counts_of((0, 0))))
    assert tells.tolist() == [1, 0]
    assert not counts[len(MARKS) :].any()
    values[7, 1] = np.finfo(float).max  # the difference to the origin is infinite in small units
    fine = ColumnSums(
        categories=(0, 0), origins=bytes(16), units=pack_integers(np.array([0, -900]))
    )
    own = DescribedColumns(Rows(None, values, np.array([0, 0])), min_cell_size=5)
    assert np.isfinite(own.answer(fine)).all()


def test_a_column_without_complete_rows_is_told_all_the_same():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (200, 2)).astype(np.int16)
    codes[:100, 0] = codes[100:, 1] = -1
    own = DescribedColumns(Rows(codes, None, np.array([2, 2])), min_cell_size=11)
    counts, tells = segments(counts_of((2, 2)).encodings, own.answer(counts_of((2, 2))))
    assert tells.tolist() == [1, 1]
    assert counts.sum() == 200


def test_a_site_of_few_rows_refuses_and_other_columns_are_malformed():
    own = DescribedColumns(Rows(None, np.zeros((4, 1)), np.array([0])), min_cell_size=5)
    with pytest.raises(PolicyRefusedError, match="min_cell_size"):
        own.answer(sums_of((0,)))
    with pytest.raises(MalformedMessageError, match="other columns"):
        own.answer(sums_of((2,)))


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (ColumnSums, {"categories": (0,), "origins": b"", "units": bytes(8)}, "as many"),
        (ColumnSums, {"categories": (2,), "origins": bytes(8), "units": bytes(8)}, "as many"),
        (
            ColumnSums,
            {"categories": (0,), "origins": np.array([np.inf]).tobytes(), "units": bytes(8)},
            "finite",
        ),
        (ValueCounts, scales_of((2,)) | {"marks": bytes(8)}, "equally many"),
        (ValueCounts, scales_of((0, 0)) | {"marks": bytes(8)}, "equally many"),
        (ValueCounts, scales_of((0,)) | {"marks": b""}, "1 to"),
        (ValueCounts, scales_of((0,)) | {"marks": np.array([2.0, 1.0]).tobytes()}, "ascend"),
        (ValueCounts, scales_of((0,)) | {"marks": np.array([np.nan]).tobytes()}, "finite"),
        (ValueCounts, scales_of((-1,)) | {"marks": b""}, "categories"),
        (ValueCounts, scales_of((0,)) | {"units": b"", "marks": bytes(8)}, "as many"),
    ],
)
def test_questions_that_make_no_sense_are_refused(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(**wrong)
