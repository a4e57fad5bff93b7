"""A site that reads from a real PostgreSQL: the same graph as from CSV, and every refusal."""

# ruff: noqa: PD011 - `values` is a site table's own array here, not that of pandas
import io
import logging
import traceback

import adversary
import hospital_folders
import numpy as np
import pandas as pd
import postgres
import psycopg
import pytest
from commands import call

from cipherdag import errors
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.federation.simulated import Federation
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.session.serving import open_site
from cipherdag.sites.study.doctor import examine
from cipherdag.sites.table.cells import CHUNK_ROWS
from cipherdag.sites.table.reading import open_table
from cipherdag.sites.table.site_table import load_table

READER, READER_PASSWORD = "reader", "p%ss:w@rd/ \"with' everything"
PATIENTS = [adversary.patients(rows, seed) for seed, rows in enumerate(adversary.ROWS)]
ODD = """
CREATE TYPE stage AS ENUM ('none', 'mild', 'severe');
CREATE TABLE odd (
  stage stage, smokes boolean, visits smallint, age real, weight numeric(6, 2), zip text,
  born date, notes jsonb, tags text[], scan bytea, id uuid);
INSERT INTO odd SELECT (ARRAY['none', 'mild'])[1 + i % 2]::stage, i % 3 = 0, i % 5, i / 2.0,
  CASE WHEN i % 7 = 0 THEN NULL ELSE 50 + i / 4.0 END, (ARRAY['007', '008'])[1 + i % 2],
  date '2000-01-01' + i, '{"a": 1}', '{x}', 'x', gen_random_uuid() FROM generate_series(1, 60) i;
CREATE TABLE secret (age int);
CREATE TABLE empty (age int, weight real);
CREATE MATERIALIZED VIEW summary AS SELECT age, visits FROM odd;
GRANT SELECT ON odd, empty, summary TO reader;
CREATE TABLE writable (age int);
GRANT ALL ON writable TO reader;
"""


@pytest.fixture(scope="module")
def server():
    """The socket's folder of a server with the tables of these tests and a user who reads."""
    with postgres.server() as folder:
        with connected(folder) as connection:
            quoted = psycopg.sql.Literal(READER_PASSWORD).as_string(connection)
            connection.execute(f"CREATE ROLE {READER} LOGIN PASSWORD {quoted}")
            connection.execute(ODD)
            names = ", ".join(f'"{name}" text' for name in adversary.NAMES)
            connection.execute(f"CREATE SCHEMA clinic; CREATE TABLE clinic.patients ({names})")
            connection.execute(f"GRANT USAGE ON SCHEMA clinic TO {READER}")
            connection.execute(f"GRANT SELECT ON clinic.patients TO {READER}")
            with connection.cursor().copy("COPY clinic.patients FROM STDIN (FORMAT csv)") as copy:
                copy.write(PATIENTS[0].to_csv(index=False, header=False))
        yield folder


def connected(folder):
    return psycopg.connect(
        host=str(folder),
        user=postgres.ADMIN,
        password=postgres.PASSWORD,
        dbname="postgres",
        autocommit=True,
    )


def source(tmp_path, server, *lines, user=READER, password=READER_PASSWORD, base="postgres"):
    """A file that names the database, beside one with the password."""
    secret = tmp_path / "secret.toml"
    secret.touch(0o600)
    written = password.replace("\\", "\\\\").replace('"', '\\"')
    secret.write_text(f'user = "{user}"\npassword = "{written}"\n', "utf-8")
    path = tmp_path / "warehouse.toml"
    said = [f'address = "postgresql:///{base}?host={server}"', 'credentials = "secret.toml"']
    path.write_text("\n".join([*said, *lines]) + "\n", "utf-8")
    return path


def test_postgresql_parquet_and_csv_give_the_graph_of_three_csvs(server, tmp_path):
    csvs = {}
    for number, frame in enumerate(PATIENTS):
        csvs[f"site-{number}"] = tmp_path / f"site-{number}.csv"
        frame.to_csv(csvs[f"site-{number}"], index=False)
    PATIENTS[1].to_parquet(tmp_path / "site-1.parquet")
    mixed = {
        "site-0": source(tmp_path, server, 'table = "clinic.patients"'),
        "site-1": tmp_path / "site-1.parquet",
        "site-2": csvs["site-2"],
    }
    schema = infer_schema(list(csvs.values()))
    graphs, inferred = [], infer_schema(list(mixed.values()))
    assert inferred == schema
    for data, own in ((csvs, schema), (mixed, schema), (mixed, None)):
        federation = Federation.simulate(data, schema=own, device="cpu")
        graphs.append(federation.run(FedPC(evidence="vote"), seed=0).finding.graph)
    assert graphs[0].edges
    assert graphs[0] == graphs[1] == graphs[2]


def test_a_run_scans_the_table_once(server, tmp_path):
    tables = {f"site-{number}": frame for number, frame in enumerate(PATIENTS)}
    schema = infer_schema(list(tables.values()))
    before = scans(server, "patients")
    stored = tables | {"site-0": source(tmp_path, server, 'table = "clinic.patients"')}
    graphs = [
        Federation.simulate(data, schema=schema, device="cpu").run(FedPC(), seed=0).finding.graph
        for data in (stored, tables)
    ]
    assert graphs[0] == graphs[1]
    assert scans(server, "patients") == before + 1


def scans(server, table):
    """How often a table was read from its first row on; sessions that have ended are counted."""
    with connected(server) as watching:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader'"
        while watching.execute(waiting).fetchone() != (0,):
            watching.execute("SELECT pg_sleep(0.01)")
        asked = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = %s"
        return watching.execute(asked, (table,)).fetchone()[0]


def test_site_folders_read_from_the_database_too(server, tmp_path):
    hospitals = hospital_folders.hospitals(tmp_path)
    folder = hospitals.folders["hospital-0"]
    before = hospitals.open("hospital-0")
    hospitals.close()
    source(folder.path, server, 'table = "clinic.patients"')
    text = folder.settings_path.read_text("utf-8")
    folder.settings_path.write_text(text.replace('"data.csv"', '"warehouse.toml"'), "utf-8")
    (folder.path / "data.csv").unlink()
    after = hospitals.open("hospital-0")
    assert after._profile.rows == before._profile.rows == len(PATIENTS[0])
    hospitals.close()
    found = {row.check: row for row in examine(folder, rehearse=lambda _: None)}
    assert (found["data"].state, found["identifiers"].state) == ("ok", "ok")


def test_a_query_gives_what_its_table_gives(server, tmp_path):
    table = source(tmp_path, server, 'table = "clinic.patients"')
    schema = infer_schema(table)
    whole = load_table(table, schema)
    asked = source(tmp_path, server, 'query = "SELECT * FROM clinic.patients"')
    assert infer_schema(asked) == schema
    np.testing.assert_array_equal(load_table(asked, schema).codes, whole.codes)
    csv = io.StringIO(PATIENTS[0].to_csv(index=False))
    np.testing.assert_array_equal(load_table(pd.read_csv(csv), schema).codes, whole.codes)


@pytest.mark.parametrize("line", ['table = "odd"', 'query = "SELECT * FROM odd;"'])
def test_a_schema_is_drafted_from_declared_types(server, tmp_path, line):
    path = source(tmp_path, server, line)
    draft = infer_schema(path, min_cell_size=0)
    columns = {column.name: column for column in draft.columns}
    assert {name: column.kind for name, column in columns.items()} == {
        "stage": "discrete", "smokes": "discrete", "visits": "continuous", "age": "continuous",
        "weight": "continuous", "zip": "discrete", "born": "ignore", "notes": "ignore",
        "tags": "ignore", "scan": "ignore", "id": "ignore",
    }  # fmt: skip
    assert columns["stage"].categories == ("none", "mild", "severe")  # nobody here is severe
    assert columns["smokes"].categories == ("False", "True")
    assert "2000-01" not in draft.dumps()
    table = load_table(path, draft)
    assert table.rows == 60
    assert int(np.isnan(table.values[:, table.names.index("weight")]).sum()) == 8
    assert table.values[1, table.names.index("age")] == 1.0


def test_a_materialised_view_and_chosen_columns_are_read(server, tmp_path):
    path = source(tmp_path, server, 'table = "summary"', 'columns = ["visits"]')
    with open_table(path) as table:
        assert table.names == ("visits",)
        assert table.count_rows() == 60


def test_rows_come_from_a_cursor_at_the_server(server, tmp_path):
    rows = 3 * CHUNK_ROWS
    query = f"SELECT i AS a, i % 2 AS b FROM generate_series(1, {rows}) i"
    with open_table(source(tmp_path, server, f'query = "{query}"')) as table:
        assert len(next(table.chunks)[0]) == CHUNK_ROWS
        with connected(server) as watching:
            (said,) = watching.execute(
                "SELECT query FROM pg_stat_activity WHERE usename = 'reader' AND state LIKE 'idle%'"
            ).fetchone()
        assert said.startswith("FETCH FORWARD")
        assert table.count_rows() == rows - CHUNK_ROWS


# refusals


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ('table = "od"', "DatabaseQueryError", "did you mean 'odd'"),
        ('table = "clinic.odd"', "DatabaseQueryError", "no table 'clinic.odd'"),
        ('table = "nowhere.odd"', "DatabaseQueryError", "no table 'nowhere.odd'"),
        ('table = "odd"\ncolumns = ["agee"]', "DatabaseQueryError", "did you mean 'age'"),
        ('table = "secret"', "DatabaseQueryError", "permission denied"),
        ('query = "SELECT agee FROM odd"', "DatabaseQueryError", 'column "agee" does not exist'),
        ('query = "SELECT * FROM nothing"', "DatabaseQueryError", '"nothing" does not exist'),
        ('query = "SELEC age"', "DatabaseQueryError", "syntax error"),
        ('query = "SELECT 1 AS a; DROP TABLE writable"', "DatabaseQueryError", ""),
        ('query = "DELETE FROM writable"', "DatabaseQueryError", ""),
        ('query = "SELECT CAST(zip AS date) AS a FROM odd"', "DatabaseError", "SQLSTATE 22007"),
        ('query = "SELECT pg_terminate_backend(pg_backend_pid())"', "DatabaseError", "stops"),
        ('table = "empty"', "EmptyDataError", ""),
    ],
)
def test_what_is_wrong_with_a_table_or_query_is_named(server, tmp_path, line, error, words):
    path = source(tmp_path, server, line)
    with pytest.raises(getattr(errors, error)) as caught:
        infer_schema(path)
    assert type(caught.value).__name__ == error
    assert words in str(caught.value)
    assert "007" not in "".join(traceback.format_exception(caught.value)).replace("22007", "")
    with connected(server) as watching:
        assert watching.execute("SELECT count(*) FROM writable").fetchone() == (0,)


def test_a_query_that_writes_is_stopped_by_the_database(server, tmp_path):
    with connected(server) as admin:
        admin.execute(
            "CREATE OR REPLACE FUNCTION leave_a_mark() RETURNS int LANGUAGE sql AS"
            " 'INSERT INTO writable VALUES (1) RETURNING age'"
        )
    path = source(tmp_path, server, 'query = "SELECT leave_a_mark() AS a"')
    with pytest.raises(errors.DatabaseQueryError, match="only reads"):
        infer_schema(path)


def test_another_database_and_another_socket_are_named(server, tmp_path):
    with pytest.raises(errors.DatabaseUnreachableError, match="no database of this name"):
        infer_schema(source(tmp_path, server, 'table = "odd"', base="nothing"))
    with pytest.raises(errors.DatabaseUnreachableError, match="does not answer"):
        infer_schema(source(tmp_path, tmp_path, 'table = "odd"'))


def test_a_closed_port_is_named(tmp_path):
    path = tmp_path / "warehouse.toml"
    path.write_text('address = "postgresql://reader@127.0.0.1:1/base"\ntable = "t"\n', "utf-8")
    with pytest.raises(errors.DatabaseUnreachableError, match="127.0.0.1:1 does not") as caught:
        infer_schema(path)
    assert "nothing listens" in caught.value.message


def test_an_unknown_host_is_named(tmp_path):
    path = tmp_path / "warehouse.toml"
    path.write_text('address = "postgresql://reader@nowhere.invalid/base"\ntable = "t"\n', "utf-8")
    with pytest.raises(errors.DatabaseUnreachableError, match="no host of this name"):
        infer_schema(path)


def test_a_server_that_takes_no_more_connections_is_named(server, tmp_path):
    with connected(server) as admin:
        admin.execute("ALTER ROLE reader CONNECTION LIMIT 0")
        try:
            with pytest.raises(errors.DatabaseUnreachableError, match="refuses every connection"):
                infer_schema(source(tmp_path, server, 'table = "odd"'))
        finally:
            admin.execute("ALTER ROLE reader CONNECTION LIMIT -1")


# passwords


@pytest.mark.parametrize(
    ("user", "password"), [(READER, "guess-774411"), ("nobody", "guess-774411"), (READER, "")]
)
def test_a_wrong_login_is_named_and_never_shown(
    server, tmp_path, user, password, capsys, monkeypatch, caplog
):
    caplog.set_level(logging.DEBUG)
    path = source(tmp_path, server, 'table = "odd"', user=user, password=password)
    with pytest.raises(errors.DatabaseLoginError) as caught:
        infer_schema(path)
    code, out, err = call(capsys, monkeypatch, "schema", "infer", path)
    assert code == 6
    assert "DatabaseLoginError" in err
    said = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + out + err
    assert "guess-774411" not in said + caplog.text


def test_nothing_of_a_site_holds_the_password(server, tmp_path, capsys, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    hospitals = hospital_folders.hospitals(tmp_path)
    for number, folder in enumerate(hospitals.folders.values()):
        if number == 0:
            source(folder.path, server, 'table = "clinic.patients"')
            text = folder.settings_path.read_text("utf-8")
            folder.settings_path.write_text(text.replace("data.csv", "warehouse.toml"), "utf-8")
    hospitals.installed = True
    handlers = hospitals.handlers()
    session = hospitals.session(handlers)
    facts = Facts(session.open(), 3, names=tuple(adversary.NAMES), min_contributors=3)
    run_program(session, Replay(FedPC(evidence="vote").ask(facts)))
    session.finish()
    hospitals.close()
    folder = hospitals.folders["hospital-0"]
    said = [
        repr(open_site(folder, folder.identity(), folder.study(), looked_at=set())),
        caplog.text,
    ]
    for command in ("check", "status", "releases"):
        said += map(str, call(capsys, monkeypatch, "site", command, "--dir", folder.path))
    secret = READER_PASSWORD.encode()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    ours = [path for path in files if path.name == "secret.toml"]
    assert len(files) > 15
    assert len(ours) == 1
    assert ours[0].stat().st_mode & 0o077 == 0
    for form in (secret, secret.replace(b'"', b'\\"'), b"w@rd", b"p%25ss", b"w%40rd"):
        assert form not in "\n".join(said).encode()
        assert not [path for path in files if path not in ours and form in path.read_bytes()]


def test_where_postgresql_is_required_its_absence_fails(monkeypatch):
    monkeypatch.setattr(postgres, "programs", lambda: None)
    monkeypatch.setenv(postgres.REQUIRED, "required")
    with pytest.raises(pytest.fail.Exception, match="required"):
        postgres.need()
    monkeypatch.delenv(postgres.REQUIRED)
    with pytest.raises(pytest.skip.Exception, match="initdb"):
        postgres.need()
