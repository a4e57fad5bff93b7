"""What a site tells of its columns: exact counts for comparisons, and sums of no few rows apart."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import pack_integers, segments
from cipherdag.questions.estimation.rounded_totals import RoundedTotals
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.descriptions.described import DescribedColumns, suppress_small_counts
from cipherdag.sites.compute.descriptions.location_scale_hints import far_off
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


def view(site):
    codes, values, categories, least = site
    return SiteView(codes, values, categories, min_cell_size=least)


def totals(site, marks=MARKS):
    """What a site puts into comparisons of its counts: rows, values and counts by column."""
    question = counts_of(site[2], marks)
    asked = RoundedTotals(question, max(site[3], 2), bytes(8 * question.n_counts), comparisons=1)
    return question.of_units(view(site).answer(asked))


def summed(site):
    """Rows and values that a site's sums are of."""
    rows, *_, used = segments(sums_of(site[2]).encodings, view(site).answer(sums_of(site[2])))
    return int(rows[0]), used.astype(int)


def present(site, v):
    codes, values, categories, _ = site
    return codes[codes[:, v] >= 0, v] if categories[v] else values[~np.isnan(values[:, v]), v]


@settings(max_examples=200, deadline=None)
@given(sites())
def test_counts_for_comparisons_are_exact(site):
    rows, values, counts = totals(site)
    assert rows == len(site[1] if site[0] is None else site[0])
    for v, sides in enumerate(site[2]):
        there = present(site, v)
        right = (
            np.bincount(there, minlength=sides) if sides else (there[:, None] <= MARKS).sum(axis=0)
        )
        assert values[v] == len(there)
        assert counts[v].tolist() == right.tolist()


@settings(max_examples=400, deadline=None)
@given(sites())
def test_sums_are_of_rows_that_are_known_or_whole_steps_apart(site):
    """So that none tells how many rows are incomplete, or miss a value, where these are few."""
    least = site[3]
    known = int(view(site).answer(Columns(n_variables=len(site[2])))[1])
    rows, used = summed(site)
    described = DescribedColumns(view(site).all_rows, min_cell_size=least)
    for v, count in enumerate([*used, rows]):
        if count:
            assert count >= least
            assert (count - known) % (2 * least) == 0
        if v < len(used) and count:
            added = described.column(v)
            assert len(added) == count
            assert np.isin(added, present(site, v)).all()
            assert len(present(site, v)) >= least


@given(st.integers(2, 12), st.integers(22, 400), st.booleans())
def test_few_missing_values_or_rows_change_no_number(least, rows, numbers):
    """Of 0 to least - 1 of them a site adds as many: what is disclosed rules out none of these."""
    added = set()
    for few in range(least):
        if numbers:
            values = np.arange(float(rows + least))[:, None]
            values[:few] = np.nan
            site = None, values, (0,), least
        else:
            codes = np.ones((rows + few, 2), dtype=np.int16)
            codes[:few, 1] = -1
            site = codes, None, (2, 2), least
        head, used = summed(site)
        added.add((head, int(used[0])))
    assert len(added) == 1 or rows < 2 * least


def test_a_value_of_few_rows_is_in_no_sum():
    values = np.full((400, 1), np.nan)
    for count in range(1, 22):
        values[:count] = 37.25
        assert summed((None, values, (0,), 11))[1].tolist() == [0]
    values[:22] = 37.25
    assert summed((None, values, (0,), 11))[1].tolist() == [400 - 22 * 17]


@settings(max_examples=100, deadline=None)
@given(sites())
def test_without_restriction_everything_is_told_exactly(site):
    codes, values, categories, _ = site
    site = codes, values, categories, 0
    rows, used = summed(site)
    question = counts_of(categories)
    counts, tells = segments(question.encodings, view(site).answer(question))
    assert rows == len(values if codes is None else codes)
    for v, own in enumerate(np.split(counts, np.cumsum(question.widths())[:-1])):
        there = present(site, v)
        assert used[v] == len(there)
        assert tells[v] == (len(there) > 0)
        assert own.tolist() == totals(site)[2][v].tolist()


@settings(max_examples=100, deadline=None)
@given(sites(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(site, source):
    codes, values, categories, _ = site
    order = list(range(len(values if codes is None else codes)))
    source.shuffle(order)
    turned = [None if own is None else own[order] for own in (codes, values)]
    answers = [view(each).answer(sums_of(categories)) for each in (site, (*turned, *site[2:]))]
    np.testing.assert_allclose(*answers, rtol=1e-12, atol=1e-12)


def test_sums_of_counts_leave_no_site_that_restricts_small_ones():
    rng = np.random.default_rng(0)
    site = None, rng.normal(size=(40, 1)), (0,), 5
    with pytest.raises(PolicyRefusedError, match="rounded only"):
        view(site).answer(counts_of((0,)))


def numbers(n, missing, least):
    values = np.random.default_rng(0).normal(50.0, 10.0, (n, 1))
    values[:missing] = np.nan
    return values, DescribedColumns(Rows(None, values, np.array([0])), min_cell_size=least)


@pytest.mark.parametrize("size", [60, 300, 2000])
def test_clean_numbers_have_no_typing_errors(size):
    rng, count = np.random.default_rng(size), 0
    for _ in range(100):
        columns = (
            rng.normal(60.0, 10.0, size).round(),
            rng.lognormal(1.0, 0.8, size),
            rng.exponential(3.0, size),
            np.where(rng.random(size) < 0.4, 0.0, rng.exponential(3.0, size)),
            rng.uniform(0.0, 1.0, size),
        )
        count += sum(far_off(column, 11) for column in columns)
    assert count <= 2


@pytest.mark.parametrize("wrong", [-999.0, 600.0, 61_000.0])
@pytest.mark.parametrize("many", [1, 3, 10])
def test_few_numbers_far_beyond_all_others_are_noticed(wrong, many):
    values = np.random.default_rng(1).normal(60.0, 10.0, 300).round()
    values[:many] = wrong
    assert far_off(values, 11)
    values[:11] = wrong
    assert not far_off(values, 11)
    assert not far_off(values[:0], 11)
    assert not far_off(np.where(np.arange(300) < 3, 1.0, 0.0), 11)


def test_the_comparison_of_sites_tells_as_many_values_of_numbers():
    values, _ = numbers(400, 3, 11)
    question = SiteDifferences(
        categories=(0,), origins=bytes(8), units=bytes(8), counts=(1,), members=bytes(2)
    )
    pool = SiteView(None, values, (0,), min_cell_size=11)
    assert segments(question.encodings, pool.answer(question))[-1].tolist() == [4 * 400 + 2]
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
    assert len(kept) == 400
    assert abs(kept.mean() - present.mean()) < 0.01 * present.std()
    assert abs(kept.std() - present.std()) < 0.02 * present.std()


def test_a_number_far_too_large_leaves_its_column_out_and_says_so():
    values = np.random.default_rng(0).normal(size=(50, 2))
    values[7, 1] = 1e9
    own = DescribedColumns(Rows(None, values, np.array([0, 0])), min_cell_size=0)
    question = sums_of((0, 0))
    _, first, _, flags, used = segments(question.encodings, own.answer(question))
    assert used.tolist() == [50, 0]
    assert flags.tolist() == [0, 1, 0, 0, 0, 0]
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
    site = codes, None, (2, 2), 11
    assert summed(site)[1].tolist() == [88, 88]
    assert totals(site)[1].tolist() == [100, 100]


def test_a_site_of_few_rows_adds_none_and_other_columns_are_malformed():
    own = DescribedColumns(Rows(None, np.zeros((4, 1)), np.array([0])), min_cell_size=5)
    assert not own.answer(sums_of((0,))).any()
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
        (ValueCounts, scales_of((0,)) | {"marks": bytes(8 * 1025)}, "at most"),
        (ValueCounts, scales_of((2,)) | {"marks": b"", "omitted": (1,)}, "some of"),
        (ValueCounts, scales_of((2, 2)) | {"marks": b"", "omitted": (1, 0)}, "ascend"),
        (ValueCounts, scales_of((0,)) | {"marks": np.array([np.nan]).tobytes()}, "finite"),
        (ValueCounts, scales_of((-1,)) | {"marks": b""}, "categories"),
        (ValueCounts, scales_of((0,)) | {"units": b"", "marks": bytes(8)}, "as many"),
    ],
)
def test_questions_that_make_no_sense_are_refused(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(**wrong)
