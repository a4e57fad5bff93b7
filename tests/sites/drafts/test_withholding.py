"""What a draft may hold that leaves its site: no value that fewer rows hold than it says."""

import csv
import re
import tomllib
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cipherdag import errors, infer_schema
from cipherdag.sites.drafts.withholding import content
from cipherdag.sites.table.column_reader import stands_for_missing
from cipherdag.sites.table.file_description import AS_USUAL
from cipherdag.sites.table.names import normalise_value
from tests.support.commands import call

ROWS = 60
WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=12)
ODD = st.sampled_from(
    ["1987-03-02", "02.03.1987", "2 March 1987", "3/87", "19870302", "12:30", "a@b.org", "NA",
     "unk", "-9", "999", "99", "007", "7", "1,5", "1.5", "A12345", "+49 171 555", "J. K.", "yes",
     "Yes", "ja", "True", "Müller", "mueller", "siehe Brief vom 3.4.; bitte anrufen", "none", "-"]
)  # fmt: skip
CELLS = st.lists(WORDS | ODD | st.integers(-99, 9999).map(str), min_size=1, max_size=9)


def text_of(schema):
    """All that a draft says but the explanation at its head, names of columns and its own words."""
    return schema.dumps().partition("case counts.")[2]


def written(schema):
    """The texts that a draft quotes as values: in its keys, and in its comments."""
    keys = tomllib.loads(schema.dumps())["columns"].values()
    values = [text for each in keys for text in map(str, each.get("categories", ()))]
    quotes = re.findall(r"'([^']*)'|\"([^\"]*)\"|\[(-?[\d.]+)\]", " ".join(
        line for line in text_of(schema).splitlines() if line.startswith("#")
    ))  # fmt: skip
    return values, {text for groups in quotes for text in groups if text}


@st.composite
def hostile_files(draw):
    """Columns of few or many values, of which some are in a row or two."""
    columns = []
    for _ in range(draw(st.integers(1, 4))):
        pool, rare = draw(CELLS), draw(CELLS)
        cells = [pool[k % len(pool)] for k in range(ROWS)]
        for at, text in enumerate(rare[: draw(st.integers(0, 8))]):
            cells[-1 - at] = text
        columns.append(cells)
    return columns


@given(columns=hostile_files())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(columns=[["yes"] * 57 + ["no"] * 3])
@example(columns=[["2021-04-05", "2021-04-06"] * 30])
@example(columns=[["P1", "P2", "P3"] * 20, ["Müller"] + ["mueller"] * 59])
@example(columns=[["1", "2"] * 28 + ["99", "3", "4", "5"]])
@example(columns=[[str(k % 20 + 50) for k in range(59)] + ["999"]])
@example(columns=[["007"] + ["7", "8"] * 29 + ["8"]])
def test_no_odd_draft_holds_a_value_of_few_rows(tmp_path_factory, columns):
    path = tmp_path_factory.mktemp("odd") / "site.csv"
    names = [f"Column {'ABCD'[k]}" for k in range(len(columns))]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([names, *zip(*columns, strict=True)])
    try:
        schema = infer_schema(path)
    except errors.DataError:
        return  # no draft
    read = schema.sources.get("site.csv", AS_USUAL).notation.categories
    rows = {
        name: Counter(map(normalise_value, read(cells)))
        for name, cells in zip(names, columns, strict=True)
    }
    for column in schema.columns:
        assert all(rows[column.name][each] >= 5 for each in column.categories)
        assert all(stands_for_missing(each) for each in column.missing)
    values, quoted = written(schema)
    rare = {text for counts in rows.values() for text, times in counts.items() if times < 5}
    often = {text for counts in rows.values() for text, times in counts.items() if times >= 5}
    marks = {text for text in rare if stands_for_missing(text) or text.startswith("-99")}
    assert not quoted & (rare - often - marks - {"ignore", "discrete", "continuous"})
    for text in values:
        assert not re.fullmatch(r"(19|20)\d\d-?\d\d-?\d\d|\d\d\.\d\d\.\d{4}|.*\w@\w.*", text)


@pytest.mark.parametrize(
    ("name", "cells", "why"),
    [
        ("Aufnahme", ["2021-04-05", "2021-04-06"], "dates"),
        ("admitted", ["5.4.21", "6.4.21"], "dates"),
        ("seen", ["12 April 1958", "3 mai 1961"], "dates"),
        ("from", ["20210405", "20210406"], "dates"),
        ("month", ["2021-04", "04/2021"], "dates"),
        ("PatientID", ["A", "B"], "identifiers"),
        ("Patienten-Nr", ["7", "8"], "identifiers"),
        ("No dossier", ["7", "8"], "identifiers"),
        ("lastName", ["Smith", "Kim"], "identifiers"),
        ("x", ["ann@example.org", "bob@example.org"], "identifiers"),
        ("x", ["J. K.", "M.L."], "identifiers"),
        ("x", ["500086", "500324"], "identifiers"),
        ("Bemerkung", ["stabil", "Brief"], "free text"),
        ("x", ["Family informed; please call", "stable"], "free text"),
        ("x", ["He was seen in the morning. Pain has gone", "stable"], "free text"),
    ],
)
def test_dates_identifiers_and_texts_are_never_categories(name, cells, why):
    frame = pd.DataFrame({name: cells * 30, "sex": ["f", "f", "m"] * 20, "dose": np.arange(60) / 2})
    draft = infer_schema(frame)
    column = draft.columns[0]
    assert (column.kind, column.categories) == ("ignore", ())
    assert f"may be {why}" in column.comment
    assert not any(cell in text_of(draft) for cell in cells if len(cell) > 1)


@pytest.mark.parametrize("form", ["S{:02d}", "P{:03d}", "PT-{}", "K {:02d}"])
@pytest.mark.parametrize("seed", range(4))
def test_pseudonyms_of_a_few_rows_each_are_no_categories(form, seed):
    rng = np.random.default_rng(seed)
    numbers = np.sort(rng.choice(np.arange(1, 30), 11, replace=False))
    cells = [form.format(k) for k in np.repeat(numbers, rng.integers(5, 20, len(numbers)))]
    draft = infer_schema(pd.DataFrame({"x": cells, "dose": np.arange(len(cells)) / 2}))
    assert "may be pseudonyms" in draft.columns[0].comment
    assert not any(f'"{cell}"' in text_of(draft) for cell in cells)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("name", "form", "numbers"),
    [
        ("diagnosis", "{}{:02d}", 99), ("visit", "V{1}", 9), ("ward", "W{1:02d}", 9),
        ("t", "T{1}", 5),
    ],
)  # fmt: skip
def test_codes_of_things_stand_in_a_draft(name, form, numbers, seed):
    rng = np.random.default_rng(seed)
    picked = rng.choice(np.arange(1, numbers + 1), min(numbers, 9), replace=False)
    codes = [form.format("EI"[k % 2], k) for k in picked]
    rows = 5 + 120 // np.arange(1, len(codes) + 1)
    draft = infer_schema(pd.DataFrame({name: np.repeat(codes, rows)}))
    assert {*draft.columns[0].categories} == {*codes}


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("stage", ["I", "II"]), ("ward", ["Ward 12", "Ward 13"]), ("icd", ["E11.9", "I10"]),
        ("gender_concept_id", ["8507", "8532"]), ("age", ["40-49", "50-59"]), ("ID", ["yes", "no"]),
        ("year", ["2019", "2020"]), ("dose", ["10000", "20000"]), ("score", ["1/2", "2/3"]),
        ("condition_concept_id", ["201826", "201827"]), ("drug", ["Aspirin 75", "Aspirin 81"]),
        ("comorbid", ["none", "heart failure"]), ("smoker", ["never smoked", "stopped long ago"]),
    ],
)  # fmt: skip
def test_usual_categories_stand_in_a_draft(name, cells):
    assert set(infer_schema(pd.DataFrame({name: cells * 30})).columns[0].categories) == {*cells}


@pytest.mark.follows("Write a row of names above it")
def test_a_file_without_a_header_makes_no_draft(tmp_path):
    path = tmp_path / "site.csv"
    path.write_text("53,88.0,2022-02-05,f\n" + "66,75.0,2021-11-15,f\n44,70.0,2021-11-15,m\n" * 9)
    with pytest.raises(errors.UnreadableDataError, match="holds? values") as caught:
        infer_schema(path)
    assert "row of names" in caught.value.remedy
    path.write_text("age,glucose,admitted,sex\n" + path.read_text())
    assert infer_schema(path).names == ("age", "glucose", "sex")
    path.write_text("id,2019,2020\n" + "1,2,3\n4,5,6\n" * 9)
    assert len(infer_schema(path).columns) == 3


@pytest.mark.follows("Draft from more rows.")
def test_a_rare_category_leaves_by_a_larger_limit_alone():
    frame = pd.DataFrame({"a": ["x"] * 40 + ["y"] * 12 + ["z"] * 8})
    for limit, left in {5: "xyz", 11: "xy", 13: "x", 0: "xyz", 41: ""}.items():
        if left:
            (column,) = infer_schema(frame, min_cell_size=limit).columns
            assert "".join(column.categories) == left
            assert column.allow_constant == (len(left) == 1)
        else:
            with pytest.raises(errors.SchemaError, match="41 rows hold") as caught:
                infer_schema(frame, min_cell_size=limit)
            assert "min_cell_size=0" in caught.value.remedy


def test_a_mark_of_a_missing_value_is_no_category():
    (column,) = infer_schema(pd.DataFrame({"a": [*["yes", "no"] * 30, "unk"]})).columns
    assert (column.categories, column.missing) == (("no", "yes"), ("unk",))
    assert "'unk' is taken as missing" in column.comment


def test_what_a_type_declares_is_withheld_like_other_values():
    order = pd.CategoricalDtype(["low", "mid", "high", "worst"], ordered=True)
    frame = pd.DataFrame({"a": pd.Series(["low", "mid"] * 20 + ["high"] * 2, dtype=order)})
    (column,) = infer_schema(frame).columns
    assert (column.categories, column.ordered) == (("low", "mid"), True)


def test_the_command_says_what_a_draft_holds(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(3)
    ages = rng.integers(38, 69, 12)
    dates = [f"2022-0{k}-1{k}" for k in rng.permutation(12) % 9 + 1]
    path = tmp_path / "tiny.csv"
    sexes = ["f", "m"] * 6
    pd.DataFrame({"age": ages, "admitted": dates, "sex": sexes}).to_csv(path, index=False)
    code, out, said = call(capsys, monkeypatch, "schema", "infer", path)
    assert code == 0
    assert "names of 3 columns, and categories of sex" in " ".join(said.split())
    draft = out.partition("case counts.")[2]
    assert not any(str(value) in draft for value in [*ages, *dates])


def test_a_draft_of_numbers_alone_says_that_it_holds_no_value():
    draft = infer_schema(pd.DataFrame({"a": np.arange(40.0) / 7}))
    assert content(draft.columns, 5) == ["This draft holds the names of 1 column, and no value."]


@pytest.mark.parametrize("mark", ["unbek.", "k.A.", "s/d", "non renseigné", "Keine Angabe"])
def test_marks_of_four_languages_are_missing_in_drafts(mark):
    rows = ["ja", "nein", mark] * 20
    (column,) = infer_schema(pd.DataFrame({"smoker": rows})).columns
    assert (column.categories, column.missing) == (("nein", "ja"), (mark,))


def test_nr_is_missing_beside_yes_and_no_and_else_asked_about():
    (column,) = infer_schema(pd.DataFrame({"response": ["CR", "PR", "NR"] * 20})).columns
    assert "NR" in column.categories
    assert 'write missing = ["NR"]' in column.comment
    (column,) = infer_schema(pd.DataFrame({"tabagisme": ["oui", "non", "NR"] * 20})).columns
    assert (column.categories, column.missing) == (("non", "oui"), ("NR",))


def test_the_event_stands_last_when_a_category_goes():
    for rest in (["NA"] * 9, ["vielleicht"] * 2):
        rows = ["ja", "nein"] * 20 + rest
        frame = pd.DataFrame({"died": rows, "age": [*map(str, range(40)), *["NA"] * len(rest)]})
        column = infer_schema(frame).columns[0]
        assert column.categories == ("nein", "ja")


KEYS = {
    "patient_id": lambda person: f"P{person:03d}",
    "Record ID": lambda person: str(person + 1),  # 0 and 1 alone may be no and yes
    "PatNr": lambda person: f"{person * 7919 % 9973:05d}",
}


@given(
    columns=hostile_files(),
    key=st.sampled_from([*KEYS]),
    visits=st.lists(st.integers(1, 9), min_size=2, max_size=30),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_odd_draft_holds_a_value_of_few_patients(columns, key, visits, order):
    whose = [person for person, times in enumerate(visits) for _ in range(times)]
    whose = [whose[k % len(whose)] for k in range(ROWS)]
    order.shuffle(whose)
    names = [f"Column {'ABCD'[k]}" for k in range(len(columns))]
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)), dtype=str)
    frame[key] = [KEYS[key](person) for person in whose]
    try:
        schema = infer_schema(frame)
    except errors.DataError:
        return  # no draft
    for column in schema.columns:
        texts = [*map(normalise_value, frame[column.name])]
        for category in column.categories:
            persons = {w for w, text in zip(whose, texts, strict=True) if text == category}
            assert len(persons) >= 5, (column.name, category)


def visits_of(*, persons=30, seed=3):
    """Five visits of each person; the last has a rare finding at all of them."""
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(persons), 5)
    weight = rng.normal(75, 12, persons)[whose] + rng.normal(0, 1, len(whose))
    finding = np.where(whose == persons - 1, "porphyria", np.where(whose % 2, "none", "anaemia"))
    sex = rng.choice(["f", "m"], persons)[whose]
    frame = pd.DataFrame({"who": whose * 37 + 1009, "finding": finding, "sex": sex})
    return frame.assign(weight=weight.round(1), height=rng.normal(170, 9, persons)[whose].round())


def test_five_visits_of_one_patient_carry_no_category():
    frame = visits_of()
    draft = infer_schema(frame)
    assert draft.columns[1].categories == ("anaemia", "none")
    assert "fewer than 5 rows, or patients, each" in draft.columns[1].comment
    assert "porphyria" not in text_of(draft)
    alone = infer_schema(frame.drop(columns="who"))
    assert "porphyria" in alone.columns[0].categories


def test_one_patient_of_two_files_counts_once(tmp_path):
    frame = visits_of().rename(columns={"who": "pid"})
    frame.loc[frame.finding == "porphyria", "pid"] = [1, 2, 1, 2, 3]
    for name, part in (("old.csv", frame.iloc[::2]), ("new.csv", frame.iloc[1::2])):
        part.to_csv(tmp_path / name, index=False)
    draft = infer_schema([tmp_path / "old.csv", tmp_path / "new.csv"])
    (column,) = (each for each in draft.columns if each.name == "finding")
    assert column.categories == ("anaemia", "none")


def test_a_category_of_five_patients_stands_in_a_draft():
    frame = visits_of()
    frame.loc[frame.index[::5][:5], "finding"] = "gout"
    assert infer_schema(frame).columns[1].categories == ("anaemia", "gout", "none")
