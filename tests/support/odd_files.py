"""A folder of hostile and odd inputs: each as a hospital might hand it over, with what must follow.

`SAME`: the table reads as the plain CSV does. `Refused`: an error that names the file, what is
wrong and where, and what to do. `Pointed`: it reads, and what is odd is said before any run.
"""

import gzip
import io
import zipfile
from dataclasses import dataclass, field

import numpy as np
import openpyxl
import pandas as pd

from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema

ROWS = 80
SAME = "the table reads as the plain CSV does"
YES_NO = Column("smoker", "discrete", categories=("no", "yes"))
COLUMNS = (
    Column("größe", "continuous"),
    Column("age", "continuous"),
    Column("sex", "discrete", categories=("f", "m")),
    YES_NO,
)
SCHEMA = Schema(COLUMNS)


@dataclass(frozen=True)
class Refused:
    """An error: parts of what it says, and of its remedy."""

    says: str
    remedy: str
    more: str = ""


@dataclass(frozen=True)
class Pointed:
    """A warning, with the table as the plain CSV or not."""

    says: str


@dataclass(frozen=True)
class Odd:
    """One input: its bytes, its name, how it is described, by which schema it is read."""

    content: object = field(repr=False)
    outcome: object
    name: str = "site.csv"
    described: dict = field(default_factory=dict)
    schema: object = field(default=SCHEMA, repr=False)


def _frame():
    rng = np.random.default_rng(11)
    age = rng.normal(60, 11, ROWS).round(1)
    return pd.DataFrame(
        {
            "größe": (150 + 0.2 * age + rng.normal(0, 9, ROWS)).round(2),
            "age": age,
            "sex": rng.choice(["f", "m"], ROWS),
            "smoker": rng.choice(["no", "yes"], ROWS),
        }
    )


FRAME = _frame()
PLAIN = FRAME.to_csv(index=False)
LINES = PLAIN.splitlines()
EUROPE = "\n".join([LINES[0].replace(",", ";")] + [
    line.replace(",", ";").replace(".", ",") for line in LINES[1:]
]) + "\n"  # fmt: skip
SEMICOLONS = {"delimiter": ";", "decimal": ","}


def text(lines):
    return ("\n".join(lines) + "\n").encode()


def cell(row, column, value, lines=None):
    """The plain CSV with another cell; rows as a spreadsheet counts them."""
    lines = [*(lines or LINES)]
    parts = lines[row - 1].split(",")
    parts[column] = value
    lines[row - 1] = ",".join(parts)
    return text(lines)


def every(column, change):
    """The plain CSV with every cell of a column changed."""
    lines = [LINES[0]]
    for number, line in enumerate(LINES[1:]):
        parts = line.split(",")
        parts[column] = change(parts[column], number)
        lines.append(",".join(parts))
    return text(lines)


def more(name, values):
    """The plain CSV with one more column."""
    return text(
        [f"{LINES[0]},{name}", *(f"{a},{b}" for a, b in zip(LINES[1:], values, strict=True))]
    )


def workbook(rows, *sheets):
    book = openpyxl.Workbook()
    book.active.title = "patients"
    for row in rows:
        book.active.append(row)
    for sheet in sheets:
        book.create_sheet(sheet)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


CELLS = [list(FRAME.columns), *FRAME.to_numpy().tolist()]


def merged():
    """A workbook in which one cell stands for three rows, as people write wards."""
    book = openpyxl.load_workbook(io.BytesIO(workbook(CELLS)))
    book.active.merge_cells("C3:C5")
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def stata():
    stream = io.BytesIO()
    FRAME.rename(columns={"größe": "groesse"}).to_stata(stream, write_index=False)
    return stream.getvalue()


def parquet():
    stream = io.BytesIO()
    FRAME.to_parquet(stream)
    return stream.getvalue()


def archive(name):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened:
        opened.writestr(name, PLAIN)
    return stream.getvalue()


def with_column(*columns):
    own = {column.name: column for column in columns}
    kept = tuple(own.pop(column.name, column) for column in COLUMNS)
    return Schema((*kept, *own.values()))


NOTES = [f'"line one\nof patient {k}"' for k in range(ROWS)]
DAYS = [f"{1 + k % 28:02d}.{1 + k % 12:02d}.{1990 + k % 9}" for k in range(ROWS)]
SAID = {"yes": ["True", "1", "yes"], "no": ["False", "0", "no"]}
BORN = Column("born", "continuous", date="days since 2000-01-01")

ODD = {
    # the same table, written otherwise
    "plain": Odd(PLAIN.encode(), SAME),
    "byte-order mark": Odd(b"\xef\xbb\xbf" + PLAIN.encode(), SAME),
    "Windows line ends": Odd(PLAIN.replace("\n", "\r\n").encode(), SAME),
    "old Macintosh line ends": Odd(PLAIN.replace("\n", "\r").encode(), SAME),
    "no last line end": Odd(PLAIN.rstrip().encode(), SAME),
    "empty lines": Odd(("\n" + PLAIN.replace("\n", "\n\n")).encode(), SAME),
    "blanks around names and cells": Odd(PLAIN.replace(",", " , ").encode(), SAME),
    "every cell in quotes": Odd(FRAME.to_csv(index=False, quoting=1).encode(), SAME),
    "gzip": Odd(gzip.compress(PLAIN.encode()), SAME),
    "gzip without its ending": Odd(gzip.compress(PLAIN.encode()), SAME, name="site.txt"),
    "another order of columns": Odd(FRAME.iloc[:, ::-1].to_csv(index=False).encode(), SAME),
    "decomposed umlauts": Odd(PLAIN.replace("ö", "o\u0308").encode(), SAME),
    "European CSV, described": Odd(EUROPE.encode(), SAME, described=SEMICOLONS),
    "European CSV in Windows-1252, described": Odd(
        EUROPE.encode("cp1252"), SAME, described={**SEMICOLONS, "encoding": "cp1252"}
    ),
    "tabs, described": Odd(
        PLAIN.replace(",", "\t").encode(), SAME, name="site.tsv", described={"delimiter": "\t"}
    ),
    "Latin-1, described": Odd(
        PLAIN.encode("latin-1"), SAME, described={"encoding": "latin-1"}
    ),
    "UTF-16, described": Odd(PLAIN.encode("utf-16"), SAME, described={"encoding": "utf-16"}),
    "trailing separators, described": Odd(
        PLAIN.replace("\n", ",\n").encode(), SAME, described={"skip_unnamed": True}
    ),
    "row numbers, described": Odd(
        FRAME.to_csv().encode(), SAME, described={"skip_unnamed": True}
    ),
    "lines above the header, described": Odd(
        b"Export\n\n" + PLAIN.encode(), SAME, described={"skip_rows": 2}
    ),
    "Excel's sep line, described": Odd(
        b"sep=;\n" + EUROPE.encode(), SAME, described={**SEMICOLONS, "skip_rows": 1}
    ),
    "column of another name, described": Odd(
        PLAIN.replace("age", "Alter").encode(), SAME, described={"rename": {"Alter": "age"}}
    ),
    "workbook": Odd(workbook(CELLS), SAME, name="site.xlsx"),
    "workbook that is called .csv": Odd(workbook(CELLS), SAME),
    "workbook of two sheets, described": Odd(
        workbook(CELLS, "notes"), SAME, name="site.xlsx", described={"sheet": "patients"}
    ),
    "workbook of numbers as text": Odd(
        workbook([[str(own) for own in row] for row in CELLS]), SAME, name="site.xlsx"
    ),
    "workbook with a title, described": Odd(
        workbook([["Patients of 2026"], [], *CELLS]),
        SAME,
        name="site.xlsx",
        described={"skip_rows": 2},
    ),
    "Stata, described": Odd(
        stata(), SAME, name="site.dta", described={"rename": {"groesse": "größe"}}
    ),
    "Parquet": Odd(parquet(), SAME, name="site.parquet"),
    "free text with line ends, ignored": Odd(
        more("notes", NOTES), SAME, schema=with_column(Column("notes", "ignore"))
    ),
    "another spelling, declared": Odd(
        cell(9, 3, "YES") if FRAME["smoker"][7] == "yes" else cell(9, 3, "NO"),
        SAME,
        schema=with_column(
            Column(
                "smoker",
                "discrete",
                categories=("no", "yes"),
                synonyms=(("no", ("NO",)), ("yes", ("YES",))),
            )
        ),
    ),
    # no table
    "no byte": Odd(b"", Refused("is empty", "header")),
    "header only": Odd(text(LINES[:1]), Refused("no row", "two rows")),
    "one row": Odd(text(LINES[:2]), Refused("one row", "two rows")),
    "binary": Odd(bytes(range(256)) * 40, Refused("UTF-8", "UTF-8")),
    "PDF": Odd(b"%PDF-1.7 ...", Refused("PDF", "CSV"), name="site.pdf"),
    "HTML that is called .xls": Odd(
        b"<html><table>", Refused("HTML", "CSV"), name="site.xls"
    ),
    "old Excel": Odd(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), Refused("before 2007", ".xlsx"),
        name="site.xls",
    ),
    "CSV that is called .xlsx": Odd(
        PLAIN.encode(), Refused("ends in .xlsx", "name"), name="site.xlsx"
    ),
    "CSV that is called .parquet": Odd(
        PLAIN.encode(), Refused("ends in .parquet", "name"), name="site.parquet"
    ),
    "zip archive": Odd(archive("site.csv"), Refused("zip archive", ".xlsx"), name="site.zip"),
    "OpenDocument": Odd(archive("content.xml"), Refused("OpenDocument", ".xlsx"), name="site.ods"),
    "workbook cut short": Odd(
        workbook(CELLS)[:-200], Refused("cut short", "Copy the"), name="site.xlsx"
    ),
    "gzip cut short": Odd(gzip.compress(PLAIN.encode())[:-9], Refused("cut short", "Copy the")),
    "SPSS": Odd(b"$FL2@(#) SPSS DATA FILE", Refused("SPSS", "Stata"), name="site.sav"),
    "SAS": Odd(b"HEADER RECORD*******LIBRARY", Refused("SAS", "Stata"), name="site.xpt"),
    "SQLite": Odd(b"SQLite format 3\0", Refused("SQLite", "address"), name="site.db"),
    # written otherwise, and nobody says so
    "European CSV": Odd(EUROPE.encode(), Refused("semicolons", 'delimiter = ";"')),
    "tabs": Odd(PLAIN.replace(",", "\t").encode(), Refused("tabs", 'delimiter = "\\t"')),
    "Excel's sep line": Odd(b"sep=;\n" + EUROPE.encode(), Refused("first line", "skip_rows = 1")),
    "Latin-1": Odd(PLAIN.encode("latin-1"), Refused("0xF6 in line 1", "cp1252")),
    "one line in Windows-1252": Odd(
        text(LINES[:4]) + "1,1,f,öde\n".encode("cp1252"), Refused("0xF6 in line 5", "cp1252")
    ),
    "UTF-16": Odd(PLAIN.encode("utf-16"), Refused("UTF-16", 'encoding = "utf-16"')),
    "UTF-16 without a mark": Odd(PLAIN.encode("utf-16-le"), Refused("UTF-16", "utf-16-le")),
    "UTF-8 that is described as Latin-1": Odd(
        PLAIN.encode(), Refused("this is UTF-8", "Leave"), described={"encoding": "latin-1"}
    ),
    "trailing separators": Odd(
        PLAIN.replace("\n", ",\n").encode(), Refused("column 5 is empty", "skip_unnamed")
    ),
    "workbook of two sheets": Odd(
        workbook(CELLS, "notes"), Refused("2 sheets", 'sheet = "patients"'), name="site.xlsx"
    ),
    "workbook with a title": Odd(
        workbook([["Patients of 2026"], *CELLS]), Refused("row 2", "name"), name="site.xlsx"
    ),
    "merged cells": Odd(merged(), Refused("C3:C5", "Unmerge", "merged"), name="site.xlsx"),
    "formula without a value": Odd(
        workbook([*CELLS[:5], ["=1+1", 1, "f", "no"]]), Refused("row 6", "Excel"), name="site.xlsx"
    ),
    "two columns of one name": Odd(
        text([LINES[0].replace("smoker", "sex"), *LINES[1:]]), Refused("same name", "Rename")
    ),
    "two spellings of one name": Odd(
        more("gro\u0308ße ", ["1"] * ROWS), Refused("same name", "Rename")
    ),
    "a row too long": Odd(
        text([*LINES[:4], LINES[4] + ",9", *LINES[5:]]), Refused("row 5 of the file", "4 fields")
    ),
    "a row too short, after empty ones": Odd(
        text([*LINES[:4], "", "", "1,2"]), Refused("row 7 of the file", "4 fields")
    ),
    "a quote without an end": Odd(text([*LINES, '"1,2,f,no']), Refused("unexpected end", "quotes")),
    "an invisible character in a name": Odd(
        PLAIN.replace("age", "a\u200bge").encode(), Refused("U+200B", "visible")
    ),
    # cells
    "a decimal comma": Odd(
        cell(6, 0, '"170,5"'), Refused("row 6 of the file", "decimal"), schema=SCHEMA
    ),
    "both decimal marks": Odd(
        EUROPE.replace(",", ".", 1).encode(),
        Refused("row 2 of the file", "", "größe"),
        described=SEMICOLONS,
    ),
    "thousands": Odd(cell(6, 0, '"1,234.5"'), Refused("row 6", "thousands", "größe")),
    "percent": Odd(cell(6, 0, "17 %"), Refused("row 6", "percent", "größe")),
    "a minus sign of typography": Odd(cell(6, 0, "−1.5"), Refused("row 6", "hyphen", "größe")),  # noqa: RUF001
    "a unit in a cell": Odd(cell(6, 0, "170 cm"), Refused("row 6", "unit", "größe")),
    "a limit": Odd(cell(6, 1, "<18"), Refused("row 6", "decide", "age")),
    "infinite": Odd(cell(6, 1, "inf"), Refused("row 6", "missing", "age")),
    "too large a number": Odd(cell(6, 1, "1e999"), Refused("row 6", "missing", "age")),
    "an error of Excel": Odd(cell(6, 1, "#DIV/0!"), Refused("row 6", "missing", "age")),
    "digits of another script": Odd(cell(6, 1, "٤٢"), Refused("row 6", "missing", "age")),
    "a zero byte in a cell": Odd(cell(6, 1, "4\x002"), Refused("row 6", "missing", "age")),
    "the header again, amid the rows": Odd(
        text([*LINES[:9], LINES[0], *LINES[9:]]), Refused("row 10", "Correct", "age")
    ),
    "NA, not declared": Odd(cell(6, 1, "NA"), Refused("row 6", 'missing = ["NA"]', "age")),
    "unknown among ages": Odd(
        cell(81, 1, "unknown"), Refused("row 81", 'missing = ["unknown"]', "age"), schema=None
    ),
    "a word among ages": Odd(
        cell(81, 1, "keine Angabe"), Refused("row 81", "missing"), schema=None
    ),
    "row behind a cell of two lines": Odd(
        more("notes", [*NOTES[:-1], "x"]).replace(LINES[80].encode(), b"1,old,f,no"),
        Refused("row 81 of the file", "missing", "age"),
        schema=with_column(Column("notes", "ignore")),
    ),
    "another spelling of a category": Odd(
        cell(7, 3, "Yes"), Refused("row 7", 'synonyms = { "yes" = ["Yes"] }', "nearest is 'yes'")
    ),
    "true among yes and no": Odd(
        cell(7, 3, "TRUE"), Refused("row 7", 'synonyms = { "yes" = ["TRUE"] }', "nearest")
    ),
    "an unknown category": Odd(cell(7, 2, "x"), Refused("row 7", "Add the category", "'x'")),
    "a code without its zero": Odd(
        more("ward", ["007", "8"] * (ROWS // 2)),
        Refused("row 3", "Add the category", "ward"),
        schema=with_column(Column("ward", "discrete", categories=("007", "008"))),
    ),
    "another name of a column": Odd(
        PLAIN.replace("age", "AGE").encode(), Refused("it has 'AGE'", 'rename."AGE" = "age"')
    ),
    "one column too many": Odd(more("x", ["1"] * ROWS), Refused("schema lacks", "ignore")),
    "-999, with a plausible range": Odd(
        cell(40, 1, "-999"),
        Refused("-999 in row 40 of the file is not between 0 and 120", "missing", "age"),
        schema=with_column(Column("age", "continuous", plausible=(0, 120))),
    ),
    "a unit ten times smaller, with a plausible range": Odd(
        every(0, lambda own, _: f"{float(own) * 10:.1f}"),
        Refused("row 2 of the file is not between 100 and 250", "unit", "größe"),
        schema=with_column(Column("größe", "continuous", plausible=(100, 250), unit="cm")),
    ),
    "a date of another format": Odd(
        more("born", DAYS), Refused("row 2", "date_format", "born"),
        schema=with_column(BORN),
    ),
    # nobody wrote a schema
    "-999 among ages": Odd(cell(40, 1, "-999"), Pointed("missing = [-999]"), schema=None),
    "a height in metres": Odd(cell(40, 0, "17250"), Pointed("decimal point"), schema=None),
    "two spellings of a category, no schema": Odd(
        every(3, lambda own, k: own.upper() if k % 3 == 0 else own),
        Pointed("synonyms"),
        schema=None,
    ),
    "three ways to say yes": Odd(
        every(3, lambda own, k: SAID[own][k % 3]),
        Pointed("look like one category"),
        schema=None,
    ),
    "a constant column": Odd(
        more("country", ["DE"] * ROWS), Pointed("'country' is left out"), schema=None
    ),
    "an empty column": Odd(
        more("empty", [""] * ROWS), Pointed("'empty' is left out"), schema=None
    ),
    "postal codes": Odd(
        more("zip", [str(10115 + 37 * k) for k in range(ROWS)]), Pointed("codes"), schema=None
    ),
    "dates": Odd(more("born", DAYS), Refused("dates", "schema infer", "born"), schema=None),
    "identifiers": Odd(
        more("id", [f"p{k:04d}" for k in range(ROWS)]),
        Refused("identifier", "schema infer", "id"),
        schema=None,
    ),
    "free text": Odd(more("notes", NOTES), Refused("free text", "schema infer"), schema=None),
    "an invisible character in a category": Odd(
        cell(7, 3, "yes\u200b"), Refused("U+200B", "remove", "row 7"), schema=None
    ),
    "a very long name": Odd(
        more("x" * 10_000, ["1", "0"] * (ROWS // 2)), Pointed(""), schema=None
    ),
}  # fmt: skip
