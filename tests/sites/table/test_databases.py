"""Tables in SQLite and DuckDB: read like the CSV of the same rows, and every way to be refused."""

# ruff: noqa: PD011 - `values` is a site table's own array here, not that of pandas
import datetime as dt
import logging
import math
import sqlite3
import subprocess
import sys
import traceback
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import pytest
from commands import call
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import errors
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table import reading, sql
from cipherdag.sites.table.cells import CHUNK_ROWS, NO_SINGLE_VALUE, NumberCells, value_cells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.database import Credentials, DatabaseSource
from cipherdag.sites.table.reading import open_table, source_of
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

SCHEMA = Schema(
    (
        Column("sex", "discrete", categories=("f", "m")),
        Column("age", "continuous"),
        Column("smokes", "discrete", categories=("0", "1")),
        Column("pressure", "binned", edges=(119.0, 139.0)),
    )
)
CREATE = "CREATE TABLE patients (sex TEXT, age DOUBLE PRECISION, smokes BOOLEAN, pressure INTEGER)"
ROWS = [
    ("f", 41.5, True, 120),
    ("m", None, False, 110),
    ("f", 63.25, None, 150),
    (None, 1, True, 1),
]
CSV = "sex,age,smokes,pressure\nf,41.5,1,120\nm,,0,110\nf,63.25,,150\n,1,1,1\n"
SECRET = "correct-horse-battery"


def sqlite_file(path, rows=ROWS):
    with sqlite3.connect(path) as connection:
        connection.execute(CREATE)
        connection.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", rows)
    connection.close()


def duckdb_file(path, rows=ROWS):
    with duckdb.connect(str(path)) as connection:
        connection.execute(CREATE)
        frame = pd.DataFrame(rows, columns=["sex", "age", "smokes", "pressure"], dtype=object)
        connection.register("frame", frame)  # row by row takes a minute
        connection.execute("INSERT INTO patients SELECT * FROM frame")


MAKERS = {"sqlite": sqlite_file, "duckdb": duckdb_file}


@pytest.fixture(params=MAKERS)
def kind(request):
    return request.param


def source(folder, kind, *lines, name="source.toml"):
    path = folder / name
    path.write_text("\n".join([f'address = "{kind}:///clinic.db"', *lines]) + "\n", "utf-8")
    return path


def same(one, two):
    return all(
        np.array_equal(first, second, equal_nan=True)
        for first, second in ((one.codes, two.codes), (one.values, two.values))
    )


def of_csv(folder):
    (folder / "site.csv").write_text(CSV, "utf-8")
    return load_table(folder / "site.csv", SCHEMA)


# what is read


@pytest.mark.parametrize(
    "lines",
    [
        ['table = "patients"'],
        ['table = "main.patients"'],
        ['table = "patients"', 'columns = ["pressure", "smokes", "age", "sex"]'],
        ['query = "SELECT * FROM patients"'],
        ['query = "SELECT sex, age, smokes, pressure FROM patients WHERE 1 = 1;"'],
    ],
    ids=str,
)
def test_a_table_reads_like_the_csv_of_its_rows(tmp_path, kind, lines):
    MAKERS[kind](tmp_path / "clinic.db")
    assert same(load_table(source(tmp_path, kind, *lines), SCHEMA), of_csv(tmp_path))


def test_a_view_and_names_that_need_quotes_are_read(tmp_path, kind):
    connect = sqlite3.connect if kind == "sqlite" else duckdb.connect
    with connect(str(tmp_path / "clinic.db")) as connection:
        connection.execute('CREATE TABLE t ("Größe ""x"", 100%" TEXT, "select" INTEGER)')
        connection.execute("INSERT INTO t VALUES ('a', 1), ('b', 2)")
        connection.execute('CREATE VIEW "v-1" AS SELECT * FROM t')
    connection.close()
    path = source(tmp_path, kind, 'table = "v-1"', """columns = ['Größe "x", 100%', "select"]""")
    with open_table(path) as table:
        assert table.names == ('Größe "x", 100%', "select")
        (block,) = table.chunks
    assert texts(block[0]) == ["a", "b"]
    assert block[1].values.tolist() == [1, 2]


def texts(cells):
    return [cells.at(row) for row in range(len(cells))]


def test_percent_and_colon_of_a_query_reach_the_database(tmp_path, kind):
    MAKERS[kind](tmp_path / "clinic.db")
    query = (
        """query = "SELECT sex || ' :a 12:30 %s' AS s, age FROM patients WHERE sex LIKE '%f%'" """
    )
    with open_table(source(tmp_path, kind, query)) as table:
        (block,) = table.chunks
    assert texts(block[0]) == ["f :a 12:30 %s"] * 2


def test_a_duckdb_file_with_one_table_needs_no_description(tmp_path):
    duckdb_file(tmp_path / "clinic.db")
    assert same(load_table(tmp_path / "clinic.db", SCHEMA), of_csv(tmp_path))
    with duckdb.connect(str(tmp_path / "clinic.db")) as connection:
        connection.execute("CREATE VIEW second AS SELECT * FROM patients")
    with pytest.raises(errors.DatabaseQueryError, match="holds 2 tables"):
        load_table(tmp_path / "clinic.db", SCHEMA)


@pytest.mark.parametrize("query", ["ATTACH '{}' AS other", "VACUUM INTO '{}'"])
def test_a_query_of_sqlite_makes_no_file_beside_its_own(tmp_path, query):
    sqlite_file(tmp_path / "clinic.db")
    new = tmp_path / "new.db"
    path = source(tmp_path, "sqlite", f'query = "{query.format(new)}"')
    with pytest.raises(errors.DatabaseQueryError, match="attaches a file"):
        load_table(path, SCHEMA)
    assert sorted(own.name for own in tmp_path.iterdir()) == ["clinic.db", "source.toml"]


def test_many_rows_come_in_blocks_and_say_how_far_they_are(tmp_path, kind, monkeypatch, caplog):
    n = 3 * CHUNK_ROWS + 5
    MAKERS[kind](tmp_path / "clinic.db", [("fm"[k % 2], k / 2, k % 3 == 0, k) for k in range(n)])
    path = source(tmp_path, kind, 'table = "patients"')
    monkeypatch.setattr(reading, "PROGRESS_S", 0.0)
    monkeypatch.setattr("cipherdag.sites.table.duckdb_file.BATCH_ROWS", CHUNK_ROWS)
    caplog.set_level(logging.INFO, "cipherdag.reading")
    with open_table(path) as table:
        assert [len(chunk[0]) for chunk in table.chunks] == [CHUNK_ROWS] * 3 + [5]
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"{path}: {CHUNK_ROWS} rows read, going on"
    loaded = load_table(path, SCHEMA)
    np.testing.assert_array_equal(loaded.values[:, 0], np.arange(n) / 2)


def test_a_site_s_own_log_holds_progress_and_refusals(tmp_path):
    script = (
        "import logging, sys; from pathlib import Path;"
        "from cipherdag.protocol.site_log import log_into;"
        "logging.basicConfig(level=logging.ERROR); log_into(Path(sys.argv[1]));"
        "logging.getLogger('cipherdag.reading').info('4096 rows read');"
        "logging.getLogger('cipherdag.site').warning('refused ask')"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "site.log"], check=True)
    said = (tmp_path / "site.log").read_text("utf-8")
    assert "4096 rows read" in said
    assert "refused ask" in said


def test_a_value_keeps_what_a_csv_would_say_of_it():
    def texts(*values):
        cells = value_cells(values)
        return list((cells.as_text() if isinstance(cells, NumberCells) else cells).texts)

    assert texts(2**53, 2**53 + 1) == ["9007199254740992", "9007199254740993"]
    assert texts(Decimal(10) ** 400, 1)[0].startswith("1")
    assert texts(dt.date(2026, 1, 2), None, UUID(int=0)) == ["2026-01-02", "", str(UUID(int=0))]
    assert texts(b"\0", [1], {"a": 1}) == [NO_SINGLE_VALUE] * 3
    assert texts("1", 2, 2.0, Decimal("2.50"), Decimal("nan"), None) == [
        "1", "2", "2", "2.50", "", "",
    ]  # fmt: skip
    assert value_cells([True, None, False]).boolean
    assert math.isinf(value_cells([1.0, math.inf]).values[1])


@given(st.lists(st.one_of(st.none(), st.integers(), st.floats(), st.decimals()), min_size=1))
def test_numbers_are_numbers_or_the_text_of_them(values):
    cells = value_cells([v for v in values if not (isinstance(v, Decimal) and v.is_snan())])
    kept = [v for v in values if not (isinstance(v, Decimal) and v.is_snan())]
    assert len(cells) == len(kept)
    if isinstance(cells, NumberCells):
        for value, own in zip(kept, cells.values, strict=True):
            empty = value is None or math.isnan(value)
            assert math.isnan(own) if empty else own == float(value)
    else:
        assert not any(v is None and text for v, text in zip(kept, cells.texts, strict=True))


# the schema


def test_a_schema_is_drafted_from_declared_types(tmp_path):
    with duckdb.connect(str(tmp_path / "clinic.db")) as connection:
        connection.execute("CREATE TYPE stage AS ENUM ('none', 'mild', 'severe', 'unheard of')")
        connection.execute(
            "CREATE TABLE t (stage stage, smokes BOOLEAN, codes INTEGER, age DECIMAL(5, 2),"
            " zip TEXT, born DATE, id BIGINT, scan BLOB)"
        )
        connection.execute(
            "INSERT INTO t SELECT ['none', 'mild', 'severe'][1 + i % 3]::stage, i % 2 = 0, i % 4,"
            " i / 7, ['007', '008'][1 + i % 2], DATE '2000-01-01' + i::INTEGER, 900000 + i,"
            " 'x'::BLOB FROM range(100) r(i)"
        )
    draft = infer_schema(source(tmp_path, "duckdb", 'table = "t"'), min_cell_size=0)
    columns = {column.name: column for column in draft.columns}
    kinds = {name: column.kind for name, column in columns.items()}
    assert kinds == {
        "stage": "discrete", "smokes": "discrete", "codes": "continuous", "age": "continuous",
        "zip": "discrete", "born": "ignore", "id": "ignore", "scan": "ignore",
    }  # fmt: skip
    assert columns["stage"].categories == ("none", "mild", "severe", "unheard of")
    assert columns["smokes"].categories == ("False", "True")
    assert columns["zip"].categories == ("007", "008")
    assert 'set kind = "discrete"' in columns["codes"].comment
    assert "identifier" in columns["id"].comment
    assert "900001" not in draft.dumps()
    assert "2000" not in draft.dumps()
    again = Schema.loads(draft.dumps())
    assert again == draft
    loaded = load_table(source(tmp_path, "duckdb", 'table = "t"'), draft)
    assert set(loaded.codes[:, loaded.names.index("smokes")]) == {0, 1}


def test_declared_and_plain_sources_make_one_draft(tmp_path, kind):
    MAKERS[kind](tmp_path / "clinic.db")
    of_csv(tmp_path)
    both = [tmp_path / "site.csv", source(tmp_path, kind, 'table = "patients"')]
    draft = infer_schema(both, min_cell_size=0)
    assert {c.name: c.kind for c in draft.columns} == {
        "sex": "discrete", "age": "continuous", "smokes": "discrete", "pressure": "continuous",
    }  # fmt: skip


def test_the_command_drafts_for_a_person_to_read(tmp_path, kind, capsys, monkeypatch):
    MAKERS[kind](tmp_path / "clinic.db")
    path = source(tmp_path, kind, 'table = "patients"')
    code, out, _ = call(capsys, monkeypatch, "schema", "infer", path, "--min-cell-size", "0")
    assert code == 0
    assert "BOOLEAN in its source." in out
    assert Schema.loads(out).names == ("age", "pressure", "sex", "smokes")


# refusals


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['table = "patient"'], "patient"),
        (['table = "elsewhere.patients"'], "elsewhere|patients"),
        (['table = "patients"', 'columns = ["sex", "agee"]'], "agee"),
        (['query = "SELECT agee FROM patients"'], "agee"),
        (['query = "SELECT * FROM nothing"'], "nothing"),
        (['query = "SELEC age"'], "SELEC"),
        (['query = "DELETE FROM patients"'], ""),
        (['query = "CREATE TABLE x (a TEXT)"'], ""),
    ],
    ids=str,
)
def test_unknown_tables_columns_and_faulty_queries_are_named(tmp_path, kind, lines, words):
    MAKERS[kind](tmp_path / "clinic.db")
    with pytest.raises(errors.DatabaseError) as caught:
        load_table(source(tmp_path, kind, *lines), SCHEMA, site="charite")
    assert any(word in str(caught.value).lower() for word in words.lower().split("|"))
    assert caught.value.exit_code == 6
    assert caught.value.site == "charite"
    if words:
        assert isinstance(caught.value, errors.DatabaseQueryError)
    assert same(load_table(source(tmp_path, kind, 'table = "patients"'), SCHEMA), of_csv(tmp_path))


def test_a_table_without_rows_is_named(tmp_path, kind):
    MAKERS[kind](tmp_path / "clinic.db", [])
    with pytest.raises(errors.EmptyDataError):
        load_table(source(tmp_path, kind, 'table = "patients"'), SCHEMA)
    with pytest.raises(errors.EmptyDataError):
        infer_schema(source(tmp_path, kind, 'table = "patients"'))


def test_a_failure_on_the_data_never_quotes_them(tmp_path, kind):
    MAKERS[kind](tmp_path / "clinic.db", [("patient-774411", 1, True, 1)])
    query = {
        "duckdb": "SELECT CAST(sex AS INTEGER) AS a FROM patients",
        "sqlite": "SELECT json_extract(sex, '$.x') AS a FROM patients",
    }[kind]
    with pytest.raises(errors.DatabaseError, match="stops the reading") as caught:
        load_table(source(tmp_path, kind, f'query = "{query}"'), SCHEMA)
    assert "774411" not in "".join(traceback.format_exception(caught.value))


def test_a_missing_file_is_named_and_not_made(tmp_path, kind):
    with pytest.raises(errors.DatabaseUnreachableError, match=r"clinic\.db"):
        load_table(source(tmp_path, kind, 'table = "patients"'), SCHEMA)
    assert not (tmp_path / "clinic.db").exists()


def test_a_file_of_another_kind_is_named(tmp_path, kind):
    (tmp_path / "clinic.db").write_bytes(b"this is no database, but long enough to be one" * 90)
    with pytest.raises(errors.DatabaseError):
        load_table(source(tmp_path, kind, 'table = "patients"'), SCHEMA)


def test_an_sqlite_file_given_as_a_table_says_how_to_name_one(tmp_path):
    sqlite_file(tmp_path / "clinic.db")
    with pytest.raises(errors.UnreadableDataError, match="SQLite") as caught:
        load_table(tmp_path / "clinic.db", SCHEMA)
    assert "sqlite:///clinic.db" in caught.value.remedy


@pytest.mark.parametrize(
    ("address", "package"),
    [
        ("duckdb:///clinic.db", "duckdb"),
        ("sqlite:///clinic.db", "sqlalchemy"),
        ("postgresql://host/base", "psycopg"),
        ("nosuchbase://host/base", ""),
    ],
)
def test_a_missing_driver_is_named_with_its_extra(tmp_path, monkeypatch, address, package):
    sqlite_file(tmp_path / "clinic.db")
    if package:
        monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / "source.toml"
    path.write_text(f'address = "{address}"\ntable = "t"\n', "utf-8")
    with pytest.raises(errors.DatabaseDriverError) as caught:
        load_table(path, SCHEMA)
    assert "install" in caught.value.remedy
    assert package in str(caught.value).lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "address = ",
        'address = "clinic.db"\ntable = "t"',
        'address = "sqlite:///x"',
        'address = "sqlite:///x"\ntable = "t"\nquery = "SELECT 1"',
        'address = "sqlite:///x"\nquery = "SELECT 1"\ncolumns = ["a"]',
        'address = "sqlite://"\ntable = "t"',
        'address = "sqlite:///x"\ntable = "t"\ncredentials = "c"',
        'address = "sqlite:///x"\ntable = "t"\npasswort = "c"',
        'address = "sqlite:///x"\ntable = ""',
        'address = "sqlite:///x"\ntable = "t"\ncolumns = [1]',
        'address = "sqlite:///x"\ntable = 5',
        'address = "postgresql://host:port/base"\ntable = "t"',
    ],
)
def test_a_description_with_a_fault_is_refused(tmp_path, text):
    path = tmp_path / "source.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(errors.DatabaseAddressError):
        load_table(path, SCHEMA)


def test_a_description_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(errors.DatabaseAddressError, match="cannot be read"):
        load_table(tmp_path / "nothing.toml", SCHEMA)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(errors.DatabaseAddressError, match="UTF-8"):
        load_table(tmp_path / "binary.toml", SCHEMA)


# passwords


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://reader:{SECRET}@host/base",
        f"postgresql+psycopg://reader:{SECRET}@host:5432/base",
        f"postgresql://:{SECRET}@host/base",
        f"postgresql://reader:{SECRET}@host:port/base",
        f"postgresql:///base?user=reader&password={SECRET}",
        f"mysql+pymysql://host/base?passwd={SECRET}",
        f"mssql+pyodbc:///?odbc_connect=SERVER%3Dh%3BPWD%3D{SECRET}",
        f"snowflake://host/base?token={SECRET}",
    ],
)
def test_an_address_with_a_password_is_refused_and_never_shown(tmp_path, address, caplog):
    path = tmp_path / "source.toml"
    path.write_text(f'address = "{address}"\ntable = "t"\n', "utf-8")
    with pytest.raises(errors.DatabaseAddressError, match="credentials file") as caught:
        load_table(path, SCHEMA)
    error = caught.value
    assert SECRET not in "".join(traceback.format_exception(error)) + repr(error) + error.remedy
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "address",
    ["postgresql://reader@host/base?sslmode=verify-full", "postgresql:///base?passfile=/x/y"],
)
def test_an_address_without_a_password_is_taken(tmp_path, address):
    assert DatabaseSource(path=tmp_path / "a.toml", address=address, table="t").table == "t"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o610, 0o644])
def test_credentials_that_others_may_read_are_refused(tmp_path, mode):
    secret = tmp_path / "secret.toml"
    secret.write_text(f'user = "reader"\npassword = "{SECRET}"\n', "utf-8")
    secret.chmod(mode)
    with pytest.raises(errors.DatabaseCredentialsError, match="open to other users") as caught:
        Credentials.load(secret, file="source.toml")
    assert "chmod 600" in caught.value.remedy
    secret.chmod(0o600)
    loaded = Credentials.load(secret, file="source.toml")
    assert (loaded.user, loaded.password) == ("reader", SECRET)
    assert SECRET not in repr(loaded) + str(loaded)


@pytest.mark.parametrize(
    "text",
    [
        f"{SECRET}\n",
        f"password = {SECRET}\n",
        f'pasword = "{SECRET}"\n',
        f'password = "{SECRET}"\nhost = "x"\n',
        'user = "reader"\n',
        "password = 5\n",
        b"\xff\xfe",
    ],
)
def test_credentials_with_a_fault_are_refused_and_never_shown(tmp_path, text):
    secret = tmp_path / "secret.toml"
    secret.write_bytes(text if isinstance(text, bytes) else text.encode())
    secret.chmod(0o600)
    with pytest.raises(errors.DatabaseCredentialsError) as caught:
        Credentials.load(secret, file="source.toml")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_missing_credentials_are_named(tmp_path):
    with pytest.raises(errors.DatabaseCredentialsError, match="cannot be read"):
        Credentials.load(tmp_path / "nothing", file="source.toml")


def test_a_source_shows_where_it_is_and_no_secret(tmp_path):
    path = tmp_path / "source.toml"
    text = 'address = "postgresql://reader@host/base"\ntable = "t"\ncredentials = "secret"\n'
    path.write_text(text, "utf-8")
    (tmp_path / "secret").write_text(f'password = "{SECRET}"', "utf-8")
    (tmp_path / "secret").chmod(0o600)
    source = DatabaseSource.load(path)
    assert source.credentials == tmp_path / "secret"
    assert source.secret().password == SECRET
    assert SECRET not in repr(source)


def test_a_duckdb_file_is_known_whatever_its_checksum_begins_with(tmp_path):
    (tmp_path / "clinic.db").write_bytes(b"<\x00\x01\x02\x03\x04\x05\x06DUCK" + bytes(60))
    assert source_of(tmp_path / "clinic.db").words == "DuckDB"


@pytest.mark.parametrize(
    ("state", "said", "kind"),
    [
        ("28P01", "", errors.DatabaseLoginError),
        ("", 'FATAL: password authentication failed for user "someone"', errors.DatabaseLoginError),
        ("", "Access denied for user 'someone'", errors.DatabaseLoginError),
        ("3D000", "", errors.DatabaseUnreachableError),
        ("", "connection refused", errors.DatabaseUnreachableError),
    ],
)
def test_a_refused_connection_is_named_by_its_state_or_its_words(state, said, kind):
    """A real PostgreSQL says the same in `test_postgres`."""
    refused = RuntimeError("no connection")
    refused.orig = RuntimeError(said)
    refused.orig.sqlstate = state
    source = DatabaseSource(
        path=Path("source.toml"), address="postgresql://host/data", query="SELECT 1"
    )
    error = sql._refusal(refused, source)
    assert type(error) is kind
    assert "someone" not in str(error)
