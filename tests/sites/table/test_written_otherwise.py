"""Files that are written otherwise: as described they read as the plain CSV of the same rows."""

# ruff: noqa: PD011 - `values` is a site table's own array here, not that of pandas
import datetime as dt
import gzip
import sys

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import errors
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.study.site_folder import SiteSettings
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.file_description import (
    AS_USUAL,
    DateRule,
    DescribedFile,
    FileDescription,
    Notation,
)
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

SCHEMA = Schema(
    (
        Column("größe", "continuous"),
        Column("smoker", "discrete", categories=("no", "yes"), synonyms=(("yes", ("Ja", "1")),)),
    )
)
PLAIN = "größe,smoker\n1234.5,yes\n-0.25,no\n,yes\n7,no\n"
GERMAN = "größe;smoker\n1.234,5;Ja\n-0,25;no\n;1\n7;no\n"
EUROPE = {"delimiter": ";", "decimal": ",", "thousands": "."}


def read(folder, content, schema=SCHEMA, name="site.csv", **description):
    path = folder / name
    path.write_bytes(content)
    own = FileDescription(**description)
    return load_table(path if own == AS_USUAL else DescribedFile(path, own), schema)


def same(one, two):
    for first, second in ((one.codes, two.codes), (one.values, two.values)):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16"])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_european_csv_reads_as_the_plain_one(tmp_path, encoding, zipped):
    content = GERMAN.encode(encoding)
    content = gzip.compress(content) if zipped else content
    found = read(tmp_path, content, encoding=encoding, **EUROPE)
    same(found, read(tmp_path, PLAIN.encode()))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_byte_order_that_is_named_may_be_marked_too(tmp_path, encoding):
    for mark in ("", "\ufeff"):
        found = read(tmp_path, (mark + PLAIN).encode(encoding), encoding=encoding)
        same(found, read(tmp_path, PLAIN.encode()))


def test_tabs_skipped_rows_unnamed_and_renamed_columns(tmp_path):
    lines = ["Export of 2026", "", "\tHeight\tsmoker\t", *(
        f"{number}\t{row.replace(',', chr(9))}\t"
        for number, row in enumerate(PLAIN.splitlines()[1:])
    )]  # fmt: skip
    found = read(
        tmp_path,
        "\n".join(lines).encode(),
        delimiter="\t",
        skip_rows=2,
        skip_unnamed=True,
        rename={"Height": "größe"},
    )
    same(found, read(tmp_path, PLAIN.encode()))


def test_names_may_hold_marks_that_separate_columns_elsewhere(tmp_path):
    schema = Schema(tuple(Column(f"lab|{name}", "continuous") for name in "abc"))
    assert read(tmp_path, b"lab|a,lab|b,lab|c\n1,2,3\n2,3,4\n", schema).rows == 2


def test_a_toml_describes_a_file_where_a_data_file_can_stand(tmp_path):
    (tmp_path / "europe.csv").write_bytes(GERMAN.encode("cp1252"))
    path = tmp_path / "europe.toml"
    lines = [f'{key} = "{value}"' for key, value in EUROPE.items()]
    path.write_text("\n".join(['file = "europe.csv"', 'encoding = "cp1252"', *lines]), "utf-8")
    same(load_table(path, SCHEMA), read(tmp_path, PLAIN.encode()))
    assert set(infer_schema(path, min_cell_size=0).names) == {"größe", "smoker"}


@given(
    st.lists(st.floats(-1e9, 1e9) | st.integers(-(10**9), 10**9) | st.none(), min_size=2),
    st.sampled_from([(",", "."), (",", " "), (",", ""), (".", ","), (".", "'"), (",", "'")]),
)
def test_numbers_survive_any_notation(tmp_path_factory, numbers, marks):
    decimal, thousands = marks
    swap = str.maketrans({",": thousands, ".": decimal})
    written = ["" if n is None else f"{n:,}".translate(swap) for n in numbers]
    folder = tmp_path_factory.mktemp("notation")
    content = "u\tv\n" + "\n".join(f"{text}\t1" for text in written) + "\n"
    schema = Schema(tuple(Column(name, "continuous", allow_constant=True) for name in "uv"))
    found = read(
        folder, content.encode(), schema, delimiter="\t", decimal=decimal, thousands=thousands
    )
    expected = [np.nan if n is None else float(n) for n in numbers]
    np.testing.assert_array_equal(found.values[:, 0], expected)


@pytest.mark.parametrize("cell", ["1.5", "12.34", "1.2345", "1,234.5", "0.001", "1 234"])
def test_a_number_of_another_notation_is_refused_and_not_read_wrongly(tmp_path, cell):
    content = f"größe;smoker\n1,5;yes\n{cell};no\n"
    with pytest.raises(errors.NotNumericError, match="row 3 of the file"):
        read(tmp_path, content.encode(), delimiter=";", decimal=",")


def test_a_mark_for_missing_values_may_look_like_another_notation(tmp_path):
    schema = Schema((Column("u", "continuous", missing=(".", "9.9", "-9")),))
    content = b"u;v\n1,5;a\n.;b\n 9.9 ;c\n-9,0;d\n2;e\n"
    found = read(tmp_path, content, Schema((*schema.columns, Column("v", "ignore"))), **EUROPE)
    np.testing.assert_array_equal(found.values[:, 0], [1.5, np.nan, np.nan, np.nan, 2])


def test_a_category_of_numbers_is_read_in_the_file_s_notation():
    notation = Notation(decimal=",")
    assert notation.categories(["1,0", "A,B", "2", "1.5"]) == ["1.0", "A,B", "2", "1.5"]
    assert Notation().categories(["1,0"]) == ["1,0"]


@pytest.mark.parametrize(
    ("content", "description", "said", "remedy"),
    [
        (GERMAN.encode(), {}, "semicolons", 'delimiter = ";"'),
        (PLAIN.replace(",", "\t").encode(), {}, "tabs", 'delimiter = "\\t"'),
        (PLAIN.encode(), {"delimiter": ";"}, "commas", 'delimiter = ","'),
        (b"sep=;\n" + GERMAN.encode(), {}, "first line", "skip_rows = 1"),
        (PLAIN.encode("cp1252"), {}, "byte 0xF6 in line 1", 'encoding = "cp1252"'),
        (PLAIN.encode("utf-16"), {}, "UTF-16", 'encoding = "utf-16"'),
        (PLAIN.encode(), {"encoding": "latin-1"}, "this is UTF-8", "Leave encoding out"),
        (PLAIN.encode("cp1252"), {"encoding": "utf-16"}, "not utf-16", "encoding"),
        (PLAIN.encode(), {"sheet": "A"}, "sheet says nothing", "[source]"),
        (PLAIN.encode(), {"rename": {"a": "b"}}, "lacks", "rename"),
        (PLAIN.replace("\n", ",\n").encode(), {}, "column 3 is empty", "skip_unnamed"),
    ],
)
def test_an_undescribed_value_is_named_with_a_line_to_declare_it(
    tmp_path, content, description, said, remedy
):
    with pytest.raises(errors.UnreadableDataError) as caught:
        read(tmp_path, content, **description)
    assert said in str(caught.value)
    assert remedy in caught.value.remedy
    assert "site.csv" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'file = "x.csv"\ndelimiter = ";;"',
        'file = "x.csv"\nencoding = "rot13"',
        'file = "x.csv"\nencoding = "nothing"',
        'file = "x.csv"\ndecimal = ";"',
        'file = "x.csv"\ndecimal = ","\nthousands = ","',
        'file = "x.csv"\nthousands = "x"',
        'file = "x.csv"\ndate_format = "%d.%m.%y"',
        'file = "x.csv"\nskip_rows = -1',
        'file = "x.csv"\ndelimeter = ";"',
        'file = "x.csv"\nrename = "a"',
    ],
)
def test_a_description_with_a_fault_is_refused(tmp_path, text):
    (tmp_path / "x.csv").write_text(PLAIN, "utf-8")
    path = tmp_path / "source.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(errors.UnreadableDataError) as caught:
        load_table(path, SCHEMA)
    assert str(path) in str(caught.value)
    assert "[source]" in caught.value.remedy


def test_a_description_dumps_what_is_not_as_usual():
    assert AS_USUAL.dumps() == ""
    own = FileDescription(delimiter="\t", skip_unnamed=True, rename={"A b": "größe"})
    assert own.dumps() == (
        '\n[source]\ndelimiter = "\\t"\nskip_unnamed = true\nrename."A b" = "größe"\n'
    )


def test_site_toml_keeps_what_it_says_of_the_file(tmp_path):
    for own in (AS_USUAL, FileDescription(encoding="cp1252", rename={"A": "b"}, skip_rows=2)):
        settings = SiteSettings(name="north", source=own)
        (tmp_path / "site.toml").write_text(settings.dumps(), "utf-8")
        assert SiteSettings.load(tmp_path / "site.toml") == settings
    (tmp_path / "site.toml").write_text('name = "north"\n[source]\ndecimal = ";"\n', "utf-8")
    with pytest.raises(errors.SiteNotReadyError, match="decimal is"):
        SiteSettings.load(tmp_path / "site.toml")


# dates, synonyms, plausible numbers


def test_dates_count_by_the_declared_rule(tmp_path):
    schema = Schema((Column("born", "continuous", date="days since 2000-01-01", missing=("x",)),))
    content = b"born\n2000-01-02\n1999-12-31\nx\n2000-01-01T12:00\n"
    np.testing.assert_array_equal(
        read(tmp_path, content, schema).values[:, 0], [1, -1, np.nan, 0.5]
    )
    years = Schema((Column("born", "binned", edges=(0.5,), date="years since 2000-01-01"),))
    found = read(tmp_path, b"born\n31.12.2000\n01.03.2000\n", years, date_format="%d.%m.%Y")
    np.testing.assert_array_equal(found.codes[:, 0], [1, 0])


@pytest.mark.parametrize(
    "cell", ["02.01.2000", "2000-13-01", "20000102", "2000", "nat", "2000-1-2"]
)
def test_what_is_no_date_is_refused(tmp_path, cell):
    schema = Schema((Column("born", "continuous", date="days since 2000-01-01"),))
    with pytest.raises(errors.NotNumericError, match="row 3 of the file is no date") as caught:
        read(tmp_path, f"born\n2000-01-02\n{cell}\n".encode(), schema)
    assert "date_format" in caught.value.remedy


@given(st.dates(), st.sampled_from(["%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", ""]))
def test_a_date_counts_the_same_in_every_format(day, form):
    rule = DateRule.parse("days since 1900-03-01")
    written = f"{day:{form}}" if form else day.isoformat()
    if len(str(day.year)) == 4:  # strptime wants four digits
        moment = Notation(date_format=form).date(written)
        assert rule.number(moment) == (day - dt.date(1900, 3, 1)).days


def test_a_date_of_a_frame_and_of_a_database_is_the_date_of_the_csv(tmp_path):
    schema = Schema((Column("born", "continuous", date="weeks since 2000-01-01"),))
    frame = pd.DataFrame({"born": pd.to_datetime(["2000-01-08 00:00", None, "2000-01-15 12:00"])})
    frame.to_parquet(tmp_path / "site.parquet")
    for source in (frame, tmp_path / "site.parquet"):
        found = load_table(source, schema).values[:, 0]
        np.testing.assert_allclose(found, [1, np.nan, 2 + 0.5 / 7], rtol=1e-15)


def test_a_number_outside_the_plausible_range_names_row_and_range(tmp_path):
    schema = Schema((Column("age", "continuous", plausible=(0, 120), unit="years"),))
    with pytest.raises(errors.NotNumericError) as caught:
        read(tmp_path, b"age\n44\n\n-999\n", schema)
    assert "-999 in row 4 of the file is not between 0 and 120 years" in str(caught.value)
    declared = Schema((Column("age", "continuous", plausible=(0, 120), missing=("-999",)),))
    found = read(tmp_path, b"age\n44\n\n-999\n45\n", declared)
    np.testing.assert_array_equal(found.values[:, 0], [44, np.nan, 45])


def test_another_spelling_is_refused_with_the_nearest_and_a_remedy(tmp_path):
    for cell, near in (
        ("Yes", "yes"),
        ("nein", "no"),
        ("JA ", "yes"),
        ("0", "no"),
        ("yess", "yes"),
    ):
        with pytest.raises(errors.UnknownCategoryError) as caught:
            read(tmp_path, f"größe,smoker\n1,yes\n2,{cell}\n".encode())
        assert f"the nearest is '{near}'" in str(caught.value)
        assert f'"{near}" = ["{cell.strip()}"]' in caught.value.remedy


def test_numbers_are_converted_and_marks_of_missing_ones_are_not(tmp_path):
    glucose = Column("glucose", "continuous", missing=("-9",), plausible=(20, 600))
    cut = Column("cut", "binned", edges=(100.0,))
    date = Column("born", "continuous", date="days since 2000-01-01")
    rename = {"Glycémie": "glucose"}
    multiply = {"glucose": 18.0, "cut": 18.0, "born": 2.0}
    content = "Glycémie;cut;born\n"
    content += "5,5;5,5;2000-01-02\n-9;5,6;2000-01-02\n;7;2000-01-03\n6;5;\n"
    how = {"delimiter": ";", "decimal": ",", "rename": rename, "multiply": multiply}
    content = content.encode()
    found = read(tmp_path, content, Schema((glucose, cut, date)), **how)
    assert found.names == ("born", "cut", "glucose")
    np.testing.assert_array_equal(found.values[:, 2], [99.0, np.nan, np.nan, 108.0])
    np.testing.assert_array_equal(found.values[:, 0], [1, 1, 2, np.nan])
    np.testing.assert_array_equal(found.codes[:, 1], [0, 1, 1, 0])
    how["multiply"] = {"glucose": 180.0}
    with pytest.raises(errors.NotNumericError, match="990 in row 2"):
        read(tmp_path, content, Schema((glucose, cut, date)), **how)
    for factor in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(errors.UnreadableDataError, match="positive numbers"):
            FileDescription(multiply={"glucose": factor})


# Excel and Stata


def workbook(folder, rows, *more, title="patients"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    for name in more:
        book.create_sheet(name)
    path = folder / "site.xlsx"
    book.save(path)
    return path


def test_a_workbook_reads_as_the_csv(tmp_path):
    rows = [["größe", "smoker"], [1234.5, "yes"], [], [-0.25, "no"], [None, "yes"], [7, "no"]]
    path = workbook(tmp_path, rows)
    same(load_table(path, SCHEMA), read(tmp_path, PLAIN.encode()))
    texts = [[str(cell or "").replace(".", ",") for cell in row] for row in rows]
    path = workbook(tmp_path, texts, "notes")
    described = DescribedFile(path, FileDescription(sheet="patients", decimal=","))
    same(load_table(described, SCHEMA), read(tmp_path, PLAIN.encode()))


def test_dates_truth_values_and_codes_of_a_workbook(tmp_path):
    schema = Schema(
        (
            Column("born", "continuous", date="days since 2000-01-01"),
            Column("ill", "discrete", categories=("0", "1")),
            Column("ward", "discrete", categories=("007", "8")),
        )
    )
    rows = [["born", "ill", "ward"], [dt.date(2000, 1, 2), True, "007"],
            [pd.Timestamp("2000-01-03 12:00"), False, 8.0]]  # fmt: skip
    found = load_table(workbook(tmp_path, rows), schema)
    np.testing.assert_array_equal(found.values[:, 0], [1, 2.5])
    np.testing.assert_array_equal(found.codes[:, 1:], [[1, 0], [0, 1]])


@pytest.mark.parametrize(
    ("rows", "more", "description", "said"),
    [
        ([["a"], [1], [2]], ["notes"], {}, r"2 sheets \('patients', 'notes'\)"),
        ([["a"], [1], [2]], [], {"sheet": "x"}, "no sheet 'x'"),
        ([["a"], [1, 2], [2]], [], {}, "row 2 of the sheet 'patients' goes on"),
        ([["a"], ["=1+1"], [2]], [], {}, "formula in row 2"),
        ([["a", None, "b"], [1, 2, 3]], [], {}, "column 2 is empty"),
        ([], [], {}, "is empty"),
        ([["größe", "smoker"], [1, "yes"], [], ["x", "no"]], [], {}, "row 4 of the sheet"),
    ],
)
def test_a_workbook_that_cannot_be_read_rightly_is_refused(tmp_path, rows, more, description, said):
    path = workbook(tmp_path, rows, *more)
    with pytest.raises(errors.DataError, match=said) as caught:
        load_table(DescribedFile(path, FileDescription(**description)), SCHEMA)
    assert caught.value.remedy


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    path = workbook(tmp_path, [["a"], [1], [2]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(errors.UnreadableDataError, match="openpyxl") as caught:
        load_table(path, SCHEMA)
    assert "cipherdag[excel]" in caught.value.remedy


def test_stata_labels_are_categories_and_missing_codes_are_missing(tmp_path):
    frame = pd.DataFrame({"groesse": [1.5, np.nan, 3.0], "smoker": [1, 0, 1]})
    labels = {"smoker": {0: "no", 1: "yes"}}
    frame.to_stata(tmp_path / "site.dta", write_index=False, value_labels=labels)
    own = DescribedFile(tmp_path / "site.dta", FileDescription(rename={"groesse": "größe"}))
    found = load_table(own, SCHEMA)
    np.testing.assert_array_equal(found.values[:, 0], [1.5, np.nan, 3])
    np.testing.assert_array_equal(found.codes[:, 1], [1, 0, 1])
    (tmp_path / "site.dta").write_bytes((tmp_path / "site.dta").read_bytes()[:300])
    with pytest.raises(errors.UnreadableDataError, match="Stata"):
        load_table(tmp_path / "site.dta", SCHEMA)
