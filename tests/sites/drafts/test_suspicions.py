"""What is pointed out in a column, and that sound columns are left in peace."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.graphs.networks import asia
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.drafts.suspicions import (
    suspicious_categories,
    suspicious_dates,
    suspicious_numbers,
    suspicious_sites,
)
from cipherdag.sites.drafts.table_suspicions import table_suspicions
from cipherdag.sites.table.site_table import load_table

RNG = np.random.default_rng(5)
AGES = RNG.normal(60, 12, 400).round()


def kinds(values):
    distinct, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    return [own.kind for own in suspicious_numbers(distinct, counts)]


MARK = "a number that often marks a missing value"


@pytest.mark.parametrize("mark", [-1, -9, -99, -999, -9999, 999, 9999, 99999, 888888])
def test_a_mark_apart_from_all_numbers_is_pointed_out(mark):
    assert kinds([*AGES, mark]) == [MARK]
    distinct, counts = np.unique([*AGES, float(mark)], return_counts=True)
    assert f"missing = [{mark}]" in str(suspicious_numbers(distinct, counts)[0])


def test_marks_among_few_codes_and_in_many_rows():
    assert kinds([0, 1, 0, 1, 9]) == [MARK]
    assert kinds([*AGES, *[999] * 40]) == [MARK]
    assert kinds([*np.linspace(0, 990, 300), *[999] * 9]) == [MARK]
    assert kinds([*(AGES + 160), 0, 0, 0]) == [MARK]


@pytest.mark.parametrize(
    "values",
    [
        AGES,
        RNG.normal(0, 1, 500),
        RNG.normal(0, 1, 500).round(1) * 9,
        RNG.gamma(2, 1, 500),
        RNG.poisson(3, 500),
        RNG.poisson(0.4, 500),
        RNG.integers(0, 1000, 500),
        RNG.integers(1930, 2010, 500),
        RNG.exponential(40, 500).round(),
        RNG.standard_t(3, 500),
        [0, 1] * 50,
        [1, 2, 3, 4, 5, 6, 7, 8, 9] * 9,
        np.arange(-9.0, 10),
    ],
)
def test_sound_numbers_are_left_in_peace(values):
    assert kinds(values) == []


@pytest.mark.parametrize("spread", [1.0, 1.5, 2.0])
def test_logarithms_are_pointed_to_where_they_alone_are_symmetric(spread):
    rng = np.random.default_rng(8)
    values = rng.lognormal(2, spread, 2000)
    assert kinds(values) == ["skewed numbers"]
    assert kinds(np.log(values)) == []
    assert kinds(-values) == []
    found = infer_schema(pd.DataFrame({"protein": values}))
    assert "LOOK: Most numbers are small beside few large ones" in found.columns[0].comment


def test_sound_columns_of_known_networks_are_left_in_peace():
    frame = asia().sample(2000, np.random.default_rng(0))
    assert table_suspicions(load_table(frame, infer_schema(frame))) == []


def test_decimal_slips_codes_and_days_are_pointed_out():
    heights = RNG.normal(1.7, 0.1, 300)
    assert kinds([*heights, 172.0, 168.0]) == ["numbers far from all others"]
    assert kinds(RNG.integers(10000, 99999, 300)) == ["codes in place of numbers"]
    assert kinds([20200101 + day for day in range(28)] * 2) == ["dates"]


@given(st.lists(st.floats(-1e300, 1e300), max_size=60))
def test_any_numbers_are_looked_at_without_an_error(values):
    kinds(values)


@pytest.mark.parametrize(
    "categories",
    [
        ("NO", "Yes", "no"),
        ("1", "True", "no"),
        ("Männer", "Maenner", "Frauen"),
        ("Männer", "Manner", "Frauen"),
        ("ja", "yes", "no"),
        ("grade 1", "Grade-1", "grade 2"),
        ("straße", "STRASSE", "weg"),
    ],
)
def test_spellings_of_one_category_are_pointed_out(categories):
    (found,) = suspicious_categories(categories)
    assert "synonyms = {" in found.remedy


@pytest.mark.parametrize(
    "categories",
    [
        ("no", "yes"),
        ("0", "1"),
        ("f", "m"),
        ("a", "b", "c"),
        ("1", "2", "10"),
        ("+", "-"),
        ("-", "--", "+", "++"),
        ("none", "mild", "severe"),
        ("*", "**"),
    ],
)
def test_other_categories_are_left_in_peace(categories):
    assert suspicious_categories(categories) == []


@pytest.mark.parametrize("word", ["NA", "n/a", "NaN", "null", "?", ".", "-", "unknown"])
def test_a_category_that_often_marks_a_missing_value_is_pointed_out(word):
    (found,) = suspicious_categories((word, "no", "yes"))
    assert found.kind == "a category that often marks a missing value"
    assert f"'{word}'" in found.detail
    assert f'missing = ["{word}"]' in found.remedy


def test_draft_and_table_name_the_same_category_as_maybe_missing():
    frame = pd.DataFrame({"country": ["NA", "ZA", "BW"] * 20, "n": np.arange(60) % 2})
    schema = infer_schema(frame)
    ((column, found),) = table_suspicions(load_table(frame, schema))
    assert column == "country"
    assert f"LOOK: {found}" in schema.columns[0].comment
    assert schema.columns[0].categories == ("BW", "NA", "ZA")  # Namibia stays


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["2020-01-31", "2021-12-01"], "days since"),
        (["31.01.2020", "01.12.2021"], '"%d.%m.%Y"'),
        (["01/31/2020", "12/01/2021"], '"%m/%d/%Y"'),
        (["01/02/2020", "12/01/2021"], '"%d/%m/%Y" or "%m/%d/%Y"'),
    ],
)
def test_dates_are_pointed_out_with_the_formats_that_fit(texts, form):
    (found,) = suspicious_dates(texts)
    assert form in found.remedy
    assert suspicious_dates(["a", *texts]) == []


def test_sites_that_differ_by_a_factor_are_named_and_shifts_are_not():
    sites = {name: RNG.normal(100, 10, 200) for name in "abc"}
    assert suspicious_sites(sites) == []
    assert suspicious_sites({**sites, "b": sites["b"] + 60}) == []
    (found,) = suspicious_sites({**sites, "b": sites["b"] / 18})
    assert "'b' are about 0.05" in found.detail
    assert suspicious_sites({"a": sites["a"], "b": np.full(5, np.nan)}) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("size", "others"), [(1e300, 1e300), (1e300, 1e-300), (-1e300, 1e300)])
def test_numbers_near_the_largest_are_compared_without_a_warning(size, others):
    sites = {name: others * RNG.uniform(1, 2, 50) for name in "abc"}
    odd = suspicious_sites(sites | {"b": size * RNG.uniform(1, 2, 50)})
    assert len(odd) == (size > 0 and size != others)


# in a draft


def comment(values, name="x"):
    frame = pd.DataFrame({name: values, "other": np.arange(len(values)) % 2})
    (column, _) = infer_schema(frame).columns
    return column, column.comment


def test_a_draft_names_a_word_among_numbers_and_quotes_no_name():
    values = [str(age) for age in AGES[:80]]
    column, said = comment([*values, "unknown"])
    assert column.kind == "continuous"
    assert "LOOK: Some rows hold words among numbers, such as 'unknown'." in said
    column, said = comment([*values, "Smith"])
    assert column.kind == "continuous"
    assert "words among numbers" in said
    assert "Smith" not in said
    column, said = comment(["0", "1", "2"] * 20 + ["unknown"])
    assert column.kind == "discrete"
    assert "LOOK" in said


def test_a_draft_takes_numbers_of_another_notation_for_numbers():
    column, said = comment([f"{age + 0.5}".replace(".", ",") for age in AGES])
    assert column.kind == "continuous"
    assert "another notation" in said
    assert "[source]" in said


def test_a_draft_warns_of_categories_of_few_rows():
    column, said = comment(["a"] * 50 + ["b"] * 4)
    assert column.categories == ("a",)
    assert "names nobody" in said
    column, said = comment(["a"] * 50 + ["b"] * 5)
    assert column.categories == ("a", "b")
    assert "LOOK" not in said


def test_a_draft_holds_no_value_of_a_number_and_no_number_of_rows():
    frame = pd.DataFrame({"x": [*(AGES + 0.25), -999.0, 5000.25], "w": ["a", "b"] * 201})
    frame["id"] = [f"person {k}" for k in range(402)]
    frame["mixed"] = [*map(str, AGES + 0.5), "Smith", "unknown"]
    text = infer_schema(frame).dumps().partition("case counts.")[2]
    assert "-999" in text
    assert "far from all others" in text
    for secret in ("402", "401", "400", "5000", "person", "Smith", ".25", ".5"):
        assert secret not in text


def test_numbers_that_differ_are_no_spellings_of_one_category():
    assert suspicious_categories(["-1", "0", "1"]) == []
    assert suspicious_categories(["-2", "-1", "1", "2"]) == []
