"""Loading a site's table: what is accepted, how it is coded, and every way to be refused."""

# ruff: noqa: PD011 - `values` is a site table's own array here, not that of pandas
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import errors
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable, load_table

SCHEMA = Schema(
    (
        Column("sex", "discrete", categories=("f", "m")),
        Column("age", "continuous", missing=("NA", "-9")),
        Column("pressure", "binned", edges=(119.0, 139.0), missing=("0",)),
    )
)
DISCRETE = Schema(
    (Column("a", "discrete", categories=("0", "1")), Column("b", "discrete", categories=("x", "y")))
)
CONTINUOUS = Schema((Column("u", "continuous"), Column("v", "continuous")))
GOOD = "sex,age,pressure\nf,41,120\nm,52.5,110\nf,63,150\n"


def write(folder, content, name="site.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def load(folder, content, schema=SCHEMA, name="site.csv"):
    return load_table(write(folder, content, name), schema, site="charite")


def same_cells(one: SiteTable, two: SiteTable) -> bool:
    return all(
        (first is None and second is None) or np.array_equal(first, second, equal_nan=True)
        for first, second in ((one.codes, two.codes), (one.values, two.values))
    )


def test_mixed_table_is_coded_in_sorted_order(tmp_path):
    table = load(tmp_path, GOOD)
    assert table.names == ("age", "pressure", "sex")
    assert table.kind == "mixed"
    assert table.rows == 3
    assert table.cardinalities == (0, 3, 2)
    assert table.codes.dtype == np.int8
    assert table.values.dtype == np.float64
    np.testing.assert_array_equal(table.codes, [[-1, 1, 0], [-1, 0, 1], [-1, 2, 0]])
    np.testing.assert_array_equal(table.values[:, 0], [41, 52.5, 63])
    assert np.isnan(table.values[:, 1:]).all()


def test_one_kind_needs_one_array(tmp_path):
    discrete = load(tmp_path, "b,a\nx,0\ny,1\n", DISCRETE)
    assert (discrete.kind, discrete.values) == ("discrete", None)
    np.testing.assert_array_equal(discrete.codes, [[0, 0], [1, 1]])
    continuous = load(tmp_path, "v,u\n1e-3,.5\n-2,+3.\n", CONTINUOUS)
    assert (continuous.kind, continuous.codes) == ("continuous", None)
    np.testing.assert_array_equal(continuous.values, [[0.5, 0.001], [3, -2]])


def test_bins_are_closed_above(tmp_path):
    cells = ["118.9", "119", "119.1", "139", "139.0001", "500"]
    rows = "".join(f"{'fm'[i % 2]},{i},{cell}\n" for i, cell in enumerate(cells))
    table = load(tmp_path, "sex,age,pressure\n" + rows)
    np.testing.assert_array_equal(table.codes[:, 1], [0, 0, 1, 1, 2, 2])


def test_missing_is_only_what_is_declared(tmp_path):
    content = "sex,age,pressure\nf,NA,0\nm,-9.0,0.0\n , ,\nm, 5 ,120\nf,6,-0e0\nf,7,160\n"
    table = load(tmp_path, content)
    np.testing.assert_array_equal(table.codes[:, 2], [0, 1, -1, 1, 0, 0])
    np.testing.assert_array_equal(table.codes[:, 1], [-1, -1, -1, 1, -1, 2])
    np.testing.assert_array_equal(table.values[:, 0], [np.nan, np.nan, np.nan, 5, 6, 7])


@pytest.mark.parametrize("word", ["NA", "null", "NaN", "None", "-"])
def test_undeclared_missing_words_are_refused(tmp_path, word):
    with pytest.raises(errors.UnknownCategoryError):
        load(tmp_path, f"sex,age,pressure\nf,1,120\n{word},2,150\n")
    with pytest.raises(errors.NotNumericError):
        load(tmp_path, f"sex,age,pressure\nf,1,120\nm,2,{word}\n")


def test_spellings_of_whole_numbers_are_one_category(tmp_path):
    schema = Schema((Column("n", "discrete", categories=("-1", "0", "1", "01", "100000")),))
    cells = ["1", "1.0", "+1.00", "1e0", "01", "-1.", "-0", "0.0", "1e+05", " 1 "]
    table = load(tmp_path, "n\n" + "\n".join(cells) + "\n", schema)
    np.testing.assert_array_equal(table.codes[:, 0], [2, 2, 2, 2, 3, 0, 1, 1, 4, 2])


def test_names_and_categories_are_compared_in_normal_form(tmp_path):
    schema = Schema((Column("Größe", "discrete", categories=("klein", "größer")),))
    decomposed = " Gro\u0308ße \nklein\n gro\u0308ßer\n"
    table = load(tmp_path, decomposed, schema)
    assert table.names == ("Größe",)
    np.testing.assert_array_equal(table.codes[:, 0], [0, 1])


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.replace("\n", "\n\n").encode(),
        GOOD.rstrip("\n").encode(),
        gzip.compress(GOOD.encode()),
        GOOD.replace("sex", '"sex"').replace("41", '"41"').encode(),
        b"age,pressure,sex\n41,120,f\n52.5,110,m\n63,150,f\n",
    ],
    ids=["bom", "crlf", "blank lines", "no last newline", "gzip", "quotes", "column order"],
)
def test_ways_to_write_the_same_csv(tmp_path, content):
    assert same_cells(load(tmp_path, content), load(tmp_path, GOOD, name="good.csv"))


def test_frames_and_parquet_equal_csv(tmp_path):
    frame = pd.DataFrame(
        {
            "sex": pd.Categorical(["f", None, "m", "m"], categories=["m", "f", "unused"]),
            "age": pd.array([41, None, 52, -9], dtype="Int64"),
            "pressure": [120.0, np.nan, 0.0, 110.0],
        }
    )
    text = load(tmp_path, "sex,age,pressure\nf,41,120\n,,\nm,52,\nm,,110\n")
    frame.to_parquet(tmp_path / "plain.parquet")
    frame.iloc[[3, 2, 1, 0]].iloc[::-1].to_parquet(tmp_path / "indexed.parquet", index=True)
    files = tmp_path / "plain.parquet", tmp_path / "indexed.parquet"
    for source in (frame, frame.astype(object), *files):
        assert same_cells(load_table(source, SCHEMA), text)


def test_numeric_frames_match_text_categories():
    frame = pd.DataFrame({"a": [0.0, 1.0, np.nan], "b": ["x", "y", None]})
    expected = [[0, 0], [1, 1], [-1, -1]]
    for column in ("float64", "Int64", "boolean", "object"):
        cast = frame.assign(
            a=frame["a"].astype(column) if column != "object" else [False, True, None]
        )
        np.testing.assert_array_equal(load_table(cast, DISCRETE).codes, expected)


def test_truth_values_prefer_their_own_words_and_count_as_numbers():
    words = Schema((Column("t", "discrete", categories=("True", "False")),))
    frame = pd.DataFrame({"t": [True, False]})
    np.testing.assert_array_equal(load_table(frame, words).codes, [[0], [1]])
    numbers = Schema((Column("t", "continuous"),))
    np.testing.assert_array_equal(load_table(frame, numbers).values, [[1], [0]])


def test_large_integers_stay_distinct():
    names = (str(2**53), str(2**53 + 1))
    frame = pd.DataFrame({"a": [2**53, 2**53 + 1]})
    table = load_table(frame, Schema((Column("a", "discrete", categories=names),)))
    np.testing.assert_array_equal(table.codes, [[0], [1]])


def test_integer_column_names_are_texts():
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    table = load_table(frame, Schema((Column("0", "continuous"), Column("1", "continuous"))))
    assert table.names == ("0", "1")


def test_ignored_columns_may_hold_anything_or_be_absent(tmp_path):
    schema = Schema((*CONTINUOUS.columns, Column("id", "ignore"), Column("gone", "ignore")))
    table = load(tmp_path, "id,u,v\nx,1,2\nx,2,3\n", schema)
    assert table.names == ("u", "v")


HEADER = "sex,age,pressure\n"
TWO_ROWS = "f,1,120\nm,2,150\n"
BAD_FILES = {
    "text in numbers": (HEADER + TWO_ROWS + "f,old,120\n", "NotNumericError", "age", 3, "'old'"),
    "infinite": (HEADER + "f,inf,120\n" + TWO_ROWS, "NotNumericError", "age", 3, "row 2"),
    "overflow": (HEADER + TWO_ROWS + "f,1,1e999\n", "NotNumericError", "pressure", 3, "row 4"),
    "underscore": (HEADER + TWO_ROWS + "f,1_0,9\n", "NotNumericError", "age", 3, "row 4"),
    "foreign digits": (HEADER + TWO_ROWS + "f,٤,9\n", "NotNumericError", "age", 3, "row 4"),
    "category": (HEADER + TWO_ROWS + "x,1,1\nz,1,1\n", "UnknownCategoryError", "sex", 4, "'x'"),
    "category case": (HEADER + "F,1,120\n" + TWO_ROWS, "UnknownCategoryError", "sex", 3, "row 2"),
    "constant": (HEADER + "f,1,120\nf,2,150\n", "ConstantColumnError", "sex", 2, "one value"),
    "constant number": (HEADER + "f,1,9\nm,1,150\n", "ConstantColumnError", "age", 2, "one value"),
    "one bin": (HEADER + "f,1,1\nm,2,2\n", "ConstantColumnError", "pressure", 2, "one bin"),
    "no value": (HEADER + "f,NA,9\nm,,150\n", "ConstantColumnError", "age", 2, "no value"),
    "missing": ("sex,age\nf,1\nm,2\n", "MissingColumnError", "pressure", 2, "lacks"),
    "case": ("Sex,age,pressure\n" + TWO_ROWS, "MissingColumnError", "sex", 2, "'Sex'"),
    "extra": ("x,sex,age,pressure\n1,f,1,1\n", "ExtraColumnError", "x", 1, "lacks"),
    "duplicate": ("sex,age,sex\nf,1,2\nm,2,3\n", "DuplicateNameError", "sex", 2, "1 and 3"),
    "clash": ("e\u0301,\u00e9 \n1,2\n2,3\n", "DuplicateNameError", "é", 2, "same name"),
    "no name": (",sex,age,pressure\n1,f,1,1\n", "UnreadableDataError", "", 1, "is empty"),
    "hidden": ("se\u200bx,age\nf,1\n", "UnreadableDataError", r"se\u200bx", 1, "U+200B"),
    "header only": (HEADER, "EmptyDataError", None, 0, "no row"),
    "zero bytes": ("", "EmptyDataError", None, 0, "empty"),
    "blank": ("\n\n", "EmptyDataError", None, 0, "empty"),
    "one row": (HEADER + "f,1,120\n", "TooFewRowsError", None, 1, "one row"),
    "ragged long": (HEADER + TWO_ROWS + "f,1,2,3\n", "UnreadableDataError", None, None, "row 4"),
    "ragged short": (HEADER + "f,1\n" + TWO_ROWS, "UnreadableDataError", None, None, "row 2"),
    "quote": (HEADER + '"f,1,120\n', "UnreadableDataError", None, None, "unexpected end"),
    "semicolons": ("sex;age\nf;1,5\n", "UnreadableDataError", None, None, "commas"),
    "latin-1": ("sex,größe\n".encode("latin-1"), "UnreadableDataError", None, None, "UTF-8"),
    "utf-16": (GOOD.encode("utf-16"), "UnreadableDataError", None, None, "UTF-8"),
    "utf-16 plain": (GOOD.encode("utf-16-le"), "UnreadableDataError", None, None, "UTF-16"),
    "binary": (bytes(range(256)) * 9, "UnreadableDataError", None, None, "UTF-8"),
    "zip": (b"PK\x03\x04rest", "DamagedFileError", None, None, "Excel"),
    "cut gzip": (gzip.compress(GOOD.encode())[:-9], "DamagedFileError", None, None, "cut short"),
    "false gzip": (b"\x1f\x8b nothing", "DamagedFileError", None, None, "damaged"),
    "cut parquet": (b"PAR1 nothing", "DamagedFileError", None, None, "Parquet"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(tmp_path, case):
    content, kind, column, rows, fragment = BAD_FILES[case]
    with pytest.raises(errors.DataError) as caught:
        load(tmp_path, content)
    error = caught.value
    assert type(error).__name__ == kind
    assert (error.exit_code, error.column, error.rows, error.site) == (6, column, rows, "charite")
    text = str(error)
    assert str(tmp_path / "site.csv") in text
    assert fragment in text
    assert column is None or f"column '{column}'" in text
    assert rows is None or f"{rows} rows" in text
    assert error.remedy


def test_a_file_cut_short_is_to_be_copied_again(tmp_path):
    with pytest.raises(errors.DamagedFileError, match="cut short") as caught:
        load(tmp_path, gzip.compress(GOOD.encode())[:-9])
    assert caught.value.remedy == "Copy the file again from where it was made."


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(errors.UnreadableDataError, match="cannot be read"):
            load_table(path, SCHEMA)


def test_bad_frames():
    two = pd.DataFrame([[1, 2], [3, 4]], columns=["u", "v"])
    bad = {
        "DuplicateNameError": two.set_axis(["u", "u"], axis=1),
        "NotNumericError": two.assign(u=[[1], [2]]),
        "TooFewRowsError": two.iloc[:1],
        "EmptyDataError": two.iloc[:0],
        "ConstantColumnError": two.assign(u=1),
    }
    for kind, frame in (*bad.items(), ("NotNumericError", two.assign(u=[np.inf, 1.0]))):
        with pytest.raises(errors.DataError, match="DataFrame") as caught:
            load_table(frame, CONTINUOUS)
        assert type(caught.value).__name__ == kind
    levels = two.set_axis(pd.MultiIndex.from_tuples([("u", 1), ("v", 2)]), axis=1)
    for odd in (levels, two.set_axis([None, "v"], axis=1), {"u": [1, 2]}, pd.DataFrame()):
        with pytest.raises((errors.UnreadableDataError, errors.EmptyDataError)):
            load_table(odd, CONTINUOUS)


def test_rows_of_a_frame_are_counted_as_pandas_does_too():
    frame = pd.DataFrame({"u": [1.0, 2.0, np.inf], "v": [1, 2, 3]}, index=[7, 8, 9])
    with pytest.raises(errors.NotNumericError, match=r"row 3 \(\.iloc\[2\]\)") as caught:
        load_table(frame, CONTINUOUS)
    assert caught.value.location == "row 3 (.iloc[2])"


def test_numbers_that_are_1_and_text_1_clash_as_names():
    with pytest.raises(errors.DuplicateNameError):
        load_table(pd.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]), CONTINUOUS)


def test_decimal_comma_has_its_own_remedy(tmp_path):
    with pytest.raises(errors.NotNumericError) as caught:
        load(tmp_path, HEADER + TWO_ROWS + 'f,"1,5",120\n')
    assert "decimal points" in caught.value.remedy


def test_constant_may_be_allowed(tmp_path):
    schema = Schema((*CONTINUOUS.columns, Column("w", "continuous", allow_constant=True)))
    table = load(tmp_path, "u,v,w\n1,2,\n2,3,\n", schema)
    assert np.isnan(table.values[:, 2]).all()


def test_faults_are_found_beyond_the_first_block(tmp_path):
    rows = [f"{i % 2},{'xy'[i % 2]}" for i in range(10_000)]
    rows[9_000] = "2,x"
    with pytest.raises(errors.UnknownCategoryError, match="row 9002 of the file") as caught:
        load(tmp_path, "a,b\n" + "\n".join(rows), DISCRETE)
    assert caught.value.rows == 10_000


def test_long_cells_are_cut_in_messages(tmp_path):
    with pytest.raises(errors.UnknownCategoryError) as caught:
        load(tmp_path, HEADER + TWO_ROWS + "z" * 1000 + ",1,1\n")
    assert len(caught.value.message) < 100


def test_repr_shows_counts_only(tmp_path):
    assert repr(load(tmp_path, GOOD)) == "SiteTable(3 rows, 3 variables, mixed)"


def test_take_picks_rows(tmp_path):
    table = load(tmp_path, GOOD)
    part = table.take(np.array([2, 0]))
    assert part.rows == 2
    np.testing.assert_array_equal(part.codes, table.codes[[2, 0]])
    np.testing.assert_array_equal(part.values, table.values[[2, 0]])


cells = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-9, 9))


@given(st.lists(st.tuples(cells, cells), min_size=2, max_size=20))
def test_csv_and_frame_give_the_same_numbers(tmp_path_factory, rows):
    schema = Schema(tuple(Column(name, "continuous", allow_constant=True) for name in "uv"))
    frame = pd.DataFrame(rows, columns=["u", "v"], dtype=object)
    path = tmp_path_factory.mktemp("numbers") / "site.csv"
    frame.to_csv(path, index=False)
    expected = np.array([[np.nan if x is None else float(x) for x in row] for row in rows])
    for source in (path, frame, frame.astype(float)):
        np.testing.assert_array_equal(load_table(source, schema).values, expected)
