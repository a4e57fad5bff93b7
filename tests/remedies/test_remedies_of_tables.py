"""What an error about a table or a schema advises is written into its files, and it reads."""

import dataclasses
import re
import sqlite3
from importlib.util import find_spec

import duckdb
import numpy as np
import odd_files
import openpyxl
import pandas as pd
import pytest
from advice import QUOTED, advice, case, evaluated, listed

from cipherdag import FedBOSS, Federation, Schema, infer_schema
from cipherdag.errors import DataError
from cipherdag.sites.table.file_description import FileDescription
from cipherdag.sites.table.site_table import load_table

ROWS = 60
SETTING = re.compile(r'(\w+(?:\."[^"]*")?) = ("[^"]*"|\[[^\]]*\]|\{.*?\}|true|\d+)')
OF_FILES = FileDescription.__struct_fields__


class Described:
    """A file with the .toml that describes it and its schema.toml."""

    def __init__(self, folder, content, name, schema, **described):
        self.folder, self.file = folder, folder / name
        self.file.write_bytes(content)
        lines = FileDescription(**described).dumps().splitlines()[2:]
        self.source, self.schema = folder / "source.toml", folder / "schema.toml"
        self.source.write_text("\n".join([f'file = "{name}"', *lines, ""]), "utf-8")
        self.schema.write_text(schema.dumps(), "utf-8")

    def read(self):
        return load_table(self.source, Schema.load(self.schema), site="ward")

    def fault(self):
        try:
            self.read()
        except DataError as error:
            return error
        raise AssertionError("nothing was wrong")

    def declare(self, key, value, column=""):
        """Write a line where it belongs."""
        if key.partition(".")[0] in OF_FILES:
            self.source.write_text(f"{self.source.read_text('utf-8')}{key} = {value}\n", "utf-8")
            return
        table = Schema((self.column(column),)).dumps().partition("[columns")[2].partition("]")[0]
        head, text = f"[columns{table}]\n", self.schema.read_text("utf-8")
        changed = re.sub(
            rf"({re.escape(head)}[^\[]*?)^{key} = [^\n]*\n", r"\1", text, flags=re.MULTILINE
        )
        changed = changed.replace(head, f"{head}{key} = {value}\n")
        assert changed != text or head not in text
        new = "" if head in changed else f"\n{head}{key} = {value}\n"
        self.schema.write_text(changed + new, "utf-8")

    @staticmethod
    def column(name):
        return odd_files.Column(name, "continuous")

    def follow(self):
        """Write what the remedies say, and read; another fault may come to light."""
        for _ in range(3):
            try:
                return self.read()
            except DataError as error:
                fault = error
            for key, value in dict(SETTING.findall(fault.remedy)).items():
                self.declare(key, value, fault.column or "")
        return self.read()


def described(folder, odd):
    return Described(folder, odd.content, odd.name, odd.schema, **odd.described)


@pytest.mark.parametrize(
    "name",
    [
        case("European CSV", "Declare {} {}, as drafts"),
        case("tabs", "Declare {} {}, as drafts"),
        case("Excel's sep line", "Declare {} {}, as drafts"),
        case("Latin-1", "Declare {} {}, as drafts"),
        case("UTF-16", "Declare {} {}, as drafts"),
        case("UTF-16 without a mark", 'if it is UTF-16, declare encoding = "utf-16-le"'),
        case("workbook of two sheets", "Declare {} {}, as drafts"),
        case("trailing separators", "or declare skip_unnamed = true"),
        case("NA, not declared", "If it stands for a missing value, write missing"),
        case("another spelling of a category", "If they are one, write synonyms"),
        case("true among yes and no", "If they are one, write synonyms"),
        case("another name of a column", "or declare rename."),
        case("one column too many", 'list it in schema.toml (kind = "ignore" skips it)'),
        case("a date of another format", "or declare date_format = "),
    ],
)
def test_a_line_that_is_advised_makes_the_table_read(tmp_path, name):
    table = described(tmp_path, odd_files.ODD[name])
    assert table.follow().rows == odd_files.ROWS


def one_column(folder, cells, kind="continuous", **more):
    """A table of an odd column of cells beside plain numbers."""
    numbers = [f"{k % 7}" for k in range(len(cells))]
    lines = ["odd;plain", *(f"{a};{b}" for a, b in zip(cells, numbers, strict=True))]
    columns = (odd_files.Column("odd", kind, **more), odd_files.Column("plain", "continuous"))
    content = ("\n".join(lines) + "\n").encode()
    return Described(folder, content, "site.csv", Schema(columns), delimiter=";")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        case((("170,5", "3,25"), "continuous"), "Write decimal points, or"),
        case((("1.170,5", "3,25"), "continuous"), "Write decimal points, or"),
        case((("1 200", "17 300"), "continuous"), "Declare the thousands separator"),
        case(
            (("31.05.2024", "01.06.2024"), "continuous"), 'Declare date = "days since 2000-01-01"'
        ),
        case((("yes", "yes"), "discrete"), "or set allow_constant = true"),
    ],
)
def test_a_column_in_another_notation_reads_as_advised(tmp_path, cells, kind):
    table = one_column(
        tmp_path, cells * 5, kind, **({"categories": ("no", "yes")} if kind[0] == "d" else {})
    )
    assert table.follow().rows == 10


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        case(("\u22121", "-1"), "Write the minus sign as"),
        case(("17 %", "17"), "Remove the percent sign"),
        case(("17 cm", "17"), "Write the number alone"),
    ],
)
def test_a_number_is_written_as_advised(tmp_path, cell, written):
    table = one_column(tmp_path, (cell, "2", "3"))
    example = re.findall(r"-\d", table.fault().remedy)
    assert example in ([written], [])
    table.file.write_text(table.file.read_text("utf-8").replace(cell, written), "utf-8")
    assert table.read().rows == 3


@pytest.mark.parametrize(
    "cell",
    [
        case("inf", "often a division by zero; or declare it under"),
        case("1e999", "declare it under missing: it is too large"),
        case("-999", "or widen plausible in schema.toml"),
        case("old", "or declare their marker under missing in schema.toml"),
    ],
)
def test_a_cell_is_declared_as_missing_or_plausible(tmp_path, cell):
    table = one_column(tmp_path, (cell, "2", "3"), plausible=(-9.0, 9.0))
    keys = re.findall(r"\b(missing|plausible)\b", table.fault().remedy)
    for key in keys:
        held = table.schema.read_text("utf-8")
        table.declare(
            key, '["inf", "1e999", "-999", "old"]' if key == "missing" else "[-1e9, 9]", "odd"
        )
        assert table.read().rows == 3
        table.schema.write_text(held, "utf-8")
    assert "missing" in keys


@pytest.mark.follows("Add the category to schema.toml at every site")
def test_a_category_is_added(tmp_path):
    table = one_column(tmp_path, ("a", "b", "x"), "discrete", categories=("a", "b"))
    key = re.search(r"Add the (\w+)y to", table.fault().remedy)[1] + "ies"
    table.declare(key, '["a", "b", "x"]', "odd")
    assert table.read().rows == 3


@pytest.mark.follows(
    "If the site did not measure it, name the site under", "Add the column, or leave"
)
def test_a_column_that_a_site_did_not_measure_is_declared(tmp_path):
    table = one_column(tmp_path, ("", ""))
    lacking = one_column(tmp_path, ("1", "2"))
    lacking.schema.write_text(lacking.schema.read_text("utf-8").replace(".odd", ".other"), "utf-8")
    for each, name in ((lacking, "other"), (table, "odd")):
        each.file.write_text("odd;plain\n;1\n;2\n" if each is table else "plain\n1\n2\n", "utf-8")
        each.schema.write_text(
            f'[columns.{name}]\nkind = "continuous"\n[columns.plain]\nkind = "continuous"\n',
            "utf-8",
        )
        key = re.search(r"under (\w+)", each.fault().remedy)[1]
        each.declare(key, '["ward"]', name)
        assert each.read().rows == 2
    table.schema.write_text(
        '[columns.odd]\nkind = "continuous"\n[columns.plain]\nkind = "continuous"\n'
    )
    table.declare(*SETTING.search(table.fault().remedy).groups(), "odd")
    assert table.read().rows == 2


@pytest.mark.follows("`cipherdag run fedpc FILES --overlapping` drafts such a schema.")
def test_files_with_different_columns_run_as_advised(call, tmp_path):
    rng, files = np.random.default_rng(0), []
    for k, columns in enumerate(("abc", "abc", "abc", "ab")):
        files.append(tmp_path / f"site{k}.csv")
        frame = pd.DataFrame(rng.integers(0, 2, (80, len(columns))), columns=list(columns))
        frame.to_csv(files[-1], index=False)
    code, _, said = call("run", "fedpc", *files, "--out", tmp_path / "out")
    words = re.search(r"`cipherdag (run[^`]*)`", said)[1].split()
    given = [each for word in words for each in (files if word == "FILES" else [word])]
    assert code == 6
    assert call(*given, "--out", tmp_path / "out")[0] == 0


@pytest.mark.parametrize(
    "line",
    [
        case('encoding = "latin-1"', "Leave encoding out"),
        case('rename = { "x" = "y" }', "Correct `rename`"),
        case('sheet = "a"', "Remove {} {}, or from the .toml"),
    ],
)
def test_a_declaration_that_is_wrong_is_left_out(tmp_path, line):
    table = described(tmp_path, odd_files.ODD["plain"])
    before, (key, value) = table.source.read_text("utf-8"), SETTING.fullmatch(line).groups()
    table.declare(key, value)
    assert key in table.fault().remedy
    table.source.write_text(before, "utf-8")
    assert table.read().rows == odd_files.ROWS


@pytest.mark.follows("Give every row {} fields; quote", "stands in quotes")
def test_a_text_with_a_delimiter_is_quoted(tmp_path):
    table = one_column(tmp_path, ("a", 'b"', "a;b"), "discrete", categories=("a", 'b"', "a;b"))
    fault = table.fault()
    text = table.file.read_text("utf-8")
    assert fault.remedy.endswith("';'.")
    text = text.replace("a;b", '"a;b"')
    table.file.write_text(text, "utf-8")
    table.read()
    table.file.write_text(text.replace('b"', '"b"x'), "utf-8")
    example = re.search(r'quotes: ("a ""b"""?), c"?', table.fault().remedy)
    assert example


def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.integers(0, 2, (ROWS, 3)), columns=list("abc"))


@pytest.mark.follows(
    "Did you mean '{}'?", "The columns are {}.", "Fill it in, or leave these rows out"
)
def test_the_column_of_sites_is_one_of_the_frame():
    data = frame().assign(ward=["north", "south", "west"] * (ROWS // 3))
    (meant,) = QUOTED.findall(advice(Federation.simulate, data, sites="wards"))
    names = listed(advice(Federation.simulate, data, sites="zzz"))
    assert len(Federation.simulate(data, sites=meant).sites) == 3
    assert meant in names
    gaps = data.assign(ward=data["ward"].where(data.index > 2))
    assert advice(Federation.simulate, gaps, sites="ward").startswith("Fill it in")
    for mended in (gaps.fillna({"ward": "west"}), gaps.dropna()):
        assert Federation.simulate(mended, sites="ward")


@pytest.mark.follows(
    "Divide one source over sites with Federation.split", "Read it into a DataFrame"
)
def test_one_source_is_divided(tmp_path):
    data, file = frame().assign(ward=["n", "s", "w"] * (ROWS // 3)), tmp_path / "data.csv"
    data.to_csv(file, index=False)
    remedy = advice(Federation.simulate, data)
    method, argument = re.search(r"with (Federation\.\w+), .* with (\w+)='COLUMN'", remedy).groups()
    assert evaluated(method)(data.drop(columns="ward"), 3)
    assert Federation.simulate(data, **{argument: "ward"})
    reader = re.search(r"with pandas\.(\w+)", advice(Federation.simulate, file, sites="ward"))[1]
    assert Federation.simulate(getattr(pd, reader)(file), sites="ward")


@pytest.mark.follows("Give a path, or a DataFrame of pandas, polars or pyarrow.")
def test_frames_of_every_package_that_is_named_are_read():
    import pyarrow as pa

    names = listed(advice(infer_schema, [{"a": [1]}]), "DataFrame of ")
    frames = {"pandas": frame(), "pyarrow": pa.Table.from_pandas(frame())}
    if find_spec("polars"):
        import polars as pl

        frames["polars"] = pl.DataFrame(frame().to_dict("list"))
    assert frames.keys() <= {*names} <= {"pandas", "pyarrow", "polars"}
    for each in frames.values():
        assert infer_schema([each]).names == ("a", "b", "c")


@pytest.mark.follows("Use at least {} rows or fewer sites.")
def test_rows_suffice_for_as_many_sites_as_advised():
    least = int(re.search(r"\d+", advice(Federation.split, frame()[:5], 3))[0])
    assert Federation.split(frame()[:least], 3)
    assert Federation.split(frame()[:5], 2)


@pytest.mark.follows("Draft a schema with `cipherdag schema infer FILE --out schema.toml`")
def test_a_column_that_is_unclear_is_declared_in_a_draft(call, tmp_path):
    file = tmp_path / "north.csv"
    frame().assign(note=[f"text {k} of a person" for k in range(ROWS)]).to_csv(file, index=False)
    remedy = advice(Federation.simulate, [file] * 3)
    words = re.search(r"`cipherdag ([^`]*)`", remedy)[1].replace("FILE", str(file)).split()
    words[-1] = str(tmp_path / words[-1])
    assert call(*words)[0] == 0
    function, argument = re.search(r"`(\w+)`\. .* in Python as (\w+)", remedy).groups()
    for schema in (words[-1], evaluated(function)([file])):
        assert Federation.simulate({"n": file, "s": file, "w": file}, **{argument: schema})


@pytest.mark.follows("Write a .toml with address = ")
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_table_of_a_database_is_named_in_a_file(tmp_path, kind):
    file = tmp_path / f"ward.{kind}"
    with (duckdb if kind == "duckdb" else sqlite3).connect(file) as database:
        database.execute("CREATE TABLE one (a INT, b INT)")
        database.execute("CREATE TABLE other (a INT, b INT)")
        database.execute("INSERT INTO one VALUES (0, 1), (1, 0), (1, 1)")
    database.close()
    key, value = SETTING.search(advice(infer_schema, [file])).groups()
    source = tmp_path / "source.toml"
    source.write_text(f'{key} = {value}\ntable = "one"\n', "utf-8")
    assert infer_schema([source]).names == ("a", "b")


@pytest.mark.follows("write logarithms of")
def test_a_number_far_from_all_others_is_declared():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    data.loc[7, "a"] = 1e13
    remedy = advice(Federation.split(data, 3, device="cpu").run, FedBOSS())
    key = re.search(r"under (\w+) of", remedy)[1]
    schema = infer_schema([data])
    columns = [
        dataclasses.replace(each, **({key: ("10000000000000.0",)} if each.name == "a" else {}))
        for each in schema.columns
    ]
    declared = dataclasses.replace(schema, columns=tuple(columns))
    assert Federation.split(data, 3, schema=declared, device="cpu").run(FedBOSS())


@pytest.mark.follows(
    "Give a list or tuple of names.", "Write form = one of {}, and columns = [names]"
)
def test_labels_and_relations_are_written_as_advised():
    schema = infer_schema([frame()])
    for kind in re.findall(r"list|tuple", advice(schema.with_labels, "a")):
        assert schema.with_labels({"list": ["a"], "tuple": ("a",)}[kind]).variables[0].label
    remedy = advice(Schema.loads, schema.dumps() + '\n[[relations]]\nform = "zzz"\n')
    for form in remedy.partition("one of ")[2].partition(", and columns")[0].split(", "):
        text = f'\n[[relations]]\nform = "{form}"\ncolumns = ["a", "b"]\n'
        assert Schema.loads(schema.dumps() + text).relations


@pytest.mark.follows(
    "Give every column a name in the header", "or declare skip_rows if they stand above"
)
def test_a_sheet_is_mended_as_advised(tmp_path):
    book = openpyxl.Workbook()
    for row in (["Patients"], ["a", "b"], [1, 2, 3], [2, 1]):
        book.active.append(row)
    book.active.merge_cells("A1:B1")
    file, source = tmp_path / "site.xlsx", tmp_path / "source.toml"
    book.save(file)
    key = re.search(r"declare (\w+)", advice(infer_schema, [file]))[1]
    source.write_text(f'file = "site.xlsx"\n{key} = 1\n', "utf-8")
    assert advice(infer_schema, [source]).startswith("Give every column a name")
    book.active["C2"] = "c"
    book.active["C4"] = 3
    book.save(file)
    assert [each.name for each in infer_schema([source]).columns] == ["a", "b", "c"]


@pytest.mark.follows(
    "Rename one of the two at every site",
    "Rename one: a site is called like its file",
    "Give each file once",
)
def test_columns_and_files_of_one_name_are_renamed(call, tmp_path):
    twice = frame().set_axis(list("aab"), axis=1)
    twice.to_csv(tmp_path / "site.csv", index=False)
    assert advice(infer_schema, [tmp_path / "site.csv"])
    frame().to_csv(tmp_path / "site.csv", index=False)
    assert infer_schema([tmp_path / "site.csv"])
    files = [tmp_path / name for name in ("site.csv", "site.txt", "other.csv")]
    for file in files:
        frame().to_csv(file, index=False)
    assert call("run", "fedpc", *files, "--out", tmp_path / "out")[0] == 2
    twice = call("run", "fedpc", files[0], files[0], files[2], "--out", tmp_path / "out")
    assert "given twice" in "".join(map(str, twice))
    files[1] = files[1].rename(tmp_path / "third.csv")
    assert call("run", "fedpc", *files, "--out", tmp_path / "out")[0] == 0


@pytest.mark.follows("Join them: `frame.set_axis(")
def test_columns_of_several_levels_are_joined():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 2)))
    frame.columns = pd.MultiIndex.from_tuples([("age", "first"), ("age", "last")])
    code = advice(infer_schema, frame).split("`")[1]
    assert infer_schema(evaluated(code, frame=frame)).names == ("age_first", "age_last")


@pytest.mark.follows("No column of the schema is there: give the schema")
def test_the_schema_of_another_table_is_drafted_anew(call, tmp_path):
    file, schema = tmp_path / "site.csv", tmp_path / "schema.toml"
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 3)), columns=list("abc"))
    frame.to_csv(file, index=False)
    schema.write_text('columns.x.kind = "continuous"', "utf-8")
    run = ("simulate", "fedpc", file, "--schema", schema)
    code, _, said = call(*run)
    line = re.search(r"`cipherdag (schema[^`]*)`", said)[1].replace("FILE", str(file))
    assert code == 6
    assert call(*line.split(), "--out", schema, "--force")[0] == 0
    assert call(*run)[0] == 0
