"""Rows of an OMOP database: a synthetic one of 10,000 persons, in three kinds of database."""

import json
import sqlite3
from datetime import date, timedelta

import duckdb
import numpy as np
import pandas as pd
import postgres
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import DatabaseAddressError
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table.database import DatabaseSource
from cipherdag.sites.table.omop import OmopColumn, OmopTable, Preview
from cipherdag.sites.table.reading import omop_preview
from cipherdag.sites.table.site_table import load_table

STUDY = """
rows = "cohort"
cohort = 7
person = "pid"
[columns.bmi]
from = "measurement"
concepts = [3038553]
unit = 9531
days = [-365, 0]
[columns.first_pressure]
from = "measurement"
concepts = [3004249]
unit = 8876
take = "first"
[columns.mean_pressure]
from = "measurement"
concepts = [3004249]
unit = 8876
take = "mean"
days = [-30, 30]
[columns.diabetes]
from = "condition"
concepts = [201820]
days = [-3650, 0]
[columns.age]
from = "age"
[columns.sex]
from = "sex"
"""
TABLES = {
    "person": {"person_id": "INT", "year_of_birth": "INT", "gender_concept_id": "INT"},
    "cohort": {
        "cohort_definition_id": "INT", "subject_id": "INT",
        "cohort_start_date": "DATE", "cohort_end_date": "DATE",
    },
    "measurement": {
        "measurement_id": "INT", "person_id": "INT", "measurement_concept_id": "INT",
        "measurement_date": "DATE", "value_as_number": "DOUBLE PRECISION", "unit_concept_id": "INT",
    },
    "condition_occurrence": {
        "condition_occurrence_id": "INT", "person_id": "INT", "condition_concept_id": "INT",
        "condition_start_date": "DATE",
    },
    "visit_occurrence": {
        "visit_occurrence_id": "INT", "person_id": "INT", "visit_start_date": "DATE",
    },
    "concept_ancestor": {"ancestor_concept_id": "INT", "descendant_concept_id": "INT"},
}  # fmt: skip
BEGINNING = date(2024, 1, 1)


def day(number):
    return (BEGINNING + timedelta(days=int(number))).isoformat()


def synthetic(persons, seed=0):
    """The tables as frames: entries of two cohorts, units that differ, records on any day."""
    rng = np.random.default_rng(seed)
    ids = np.arange(persons)
    person = pd.DataFrame({
        "person_id": ids, "year_of_birth": rng.integers(1930, 2000, persons),
        "gender_concept_id": rng.choice([8507, 8532, 0], persons, p=[0.48, 0.48, 0.04]),
    })  # fmt: skip
    entered = rng.choice(ids, persons * 3 // 4)
    start = rng.integers(0, 700, len(entered))
    cohort = pd.DataFrame({
        "cohort_definition_id": rng.choice([7, 8], len(entered), p=[0.9, 0.1]),
        "subject_id": entered, "cohort_start_date": map(day, start),
        "cohort_end_date": map(day, start + 60),
    })  # fmt: skip
    n_measured = persons * 4
    concept = rng.choice([3038553, 3004249], n_measured)
    measurement = pd.DataFrame({
        "measurement_id": np.arange(n_measured), "person_id": rng.choice(ids, n_measured),
        "measurement_concept_id": concept,
        "measurement_date": map(day, rng.integers(-200, 800, n_measured)),
        "value_as_number": np.where(concept == 3038553, 27.0, 130.0)
        + rng.integers(-40, 40, n_measured) / 8,
        "unit_concept_id": np.where(
            rng.random(n_measured) < 0.9, np.where(concept == 3038553, 9531, 8876), 8840
        ),
    })  # fmt: skip
    n_ill = persons // 2
    condition = pd.DataFrame({
        "condition_occurrence_id": np.arange(n_ill), "person_id": rng.choice(ids, n_ill),
        "condition_concept_id": rng.choice([201826, 201820, 4329847], n_ill),
        "condition_start_date": map(day, rng.integers(-200, 800, n_ill)),
    })  # fmt: skip
    visit = pd.DataFrame({
        "visit_occurrence_id": np.arange(persons), "person_id": rng.choice(ids, persons),
        "visit_start_date": map(day, rng.integers(0, 800, persons)),
    })  # fmt: skip
    tree = pd.DataFrame({"ancestor_concept_id": [201820], "descendant_concept_id": [201826]})
    frames = (person, cohort, measurement, condition, visit, tree)
    return dict(zip(TABLES, frames, strict=True))


def by_person(frame):
    """The frame's rows as tuples, a list for each person."""
    rows = {}
    for row in frame.itertuples(index=False):
        rows.setdefault(row.person_id, []).append(row)
    return rows


def by_hand(tables):
    """The rows of `STUDY`, row by row in Python."""
    people = {row.person_id: row for row in tables["person"].itertuples()}
    measured, ill = by_person(tables["measurement"]), by_person(tables["condition_occurrence"])
    entries = tables["cohort"].query("cohort_definition_id == 7")
    rows = []
    for entry in entries.sort_values(["subject_id", "cohort_start_date"]).itertuples():
        begin = date.fromisoformat(entry.cohort_start_date)
        numbers = {3038553: [], 3004249: []}
        own = measured.get(entry.subject_id, ())
        for row in sorted(own, key=lambda each: (each.measurement_date, each.measurement_id)):
            unit = {3038553: 9531, 3004249: 8876}[row.measurement_concept_id]
            if row.unit_concept_id == unit:
                away = (date.fromisoformat(row.measurement_date) - begin).days
                numbers[row.measurement_concept_id].append((away, row.value_as_number))
        bmi = [value for away, value in numbers[3038553] if -365 <= away <= 0]
        near = [value for away, value in numbers[3004249] if -30 <= away <= 30]
        diabetes = any(
            row.condition_concept_id in (201820, 201826)
            and -3650 <= (date.fromisoformat(row.condition_start_date) - begin).days <= 0
            for row in ill.get(entry.subject_id, ())
        )
        about = people[entry.subject_id]
        rows.append({
            "pid": entry.subject_id,
            "bmi": bmi[-1] if bmi else np.nan,
            "first_pressure": numbers[3004249][0][1] if numbers[3004249] else np.nan,
            "mean_pressure": np.mean(near) if near else np.nan,
            "diabetes": "yes" if diabetes else "no",
            "age": begin.year - about.year_of_birth,
            "sex": {8507: "male", 8532: "female"}.get(about.gender_concept_id, ""),
        })  # fmt: skip
    return pd.DataFrame(rows)


def created(name, schema=""):
    columns = ", ".join(f"{column} {kind}" for column, kind in TABLES[name].items())
    return f"CREATE TABLE {schema}{name} ({columns})"


def in_sqlite(folder, tables):
    with sqlite3.connect(folder / "cdm.db") as database:
        for name, frame in tables.items():
            frame.to_sql(name, database, index=False)
    database.close()
    return described(folder, 'address = "sqlite:///cdm.db"')


def in_duckdb(folder, tables):
    with duckdb.connect(str(folder / "store.duckdb")) as database:
        database.execute("CREATE SCHEMA cdm")
        for name, frame in tables.items():
            database.execute(created(name, "cdm."))
            database.register("given", frame)
            database.execute(f"INSERT INTO cdm.{name} SELECT * FROM given")
    return described(folder, 'address = "duckdb:///store.duckdb"\ncdm = "cdm"')


def in_postgres(folder, tables, server):
    with psycopg.connect(
        host=str(server), user=postgres.ADMIN, password=postgres.PASSWORD, dbname="postgres",
        autocommit=True,
    ) as connection:  # fmt: skip
        connection.execute("CREATE SCHEMA cdm")
        for name, frame in tables.items():
            connection.execute(created(name, "cdm."))
            with connection.cursor().copy(f"COPY cdm.{name} FROM STDIN (FORMAT csv)") as copy:
                copy.write(frame.to_csv(index=False, header=False))
    secret = folder / "secret.toml"
    secret.touch(0o600)
    secret.write_text(f'user = "{postgres.ADMIN}"\npassword = "{postgres.PASSWORD}"\n', "utf-8")
    address = f'address = "postgresql:///postgres?host={server}"\ncredentials = "secret.toml"'
    return described(folder, f'{address}\ncdm = "cdm"')


def described(folder, address, study=STUDY):
    (folder / "study.toml").write_text(study, "utf-8")
    path = folder / "cdm.toml"
    path.write_text(f'{address}\nomop = "study.toml"\n', "utf-8")
    return path


@pytest.fixture(scope="module")
def tables():
    return synthetic(10_000)


@pytest.fixture(scope="module")
def expected(tables):
    return by_hand(tables)


def same_as(path, expected, folder):
    csv = folder / "expected.csv"
    expected.to_csv(csv, index=False)
    schema = infer_schema(csv)
    found, wanted = load_table(path, schema), load_table(csv, schema)
    np.testing.assert_array_equal(found.codes, wanted.codes)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-14)


@pytest.mark.parametrize("made", [in_sqlite, in_duckdb])
def test_rows_of_ten_thousand_persons_are_those_made_by_hand(made, tables, expected, tmp_path):
    assert len(expected) > 6000
    same_as(made(tmp_path, tables), expected, tmp_path)


def test_postgresql_gives_the_same_rows_as_those_made_by_hand(tables, expected, tmp_path):
    with postgres.server() as server:
        path = in_postgres(tmp_path, tables, server)
        same_as(path, expected, tmp_path)
        counts = omop_preview(path)
    assert counts[0].filled == expected["bmi"].notna().sum()


@pytest.mark.parametrize("made", [in_sqlite, in_duckdb])
def test_the_preview_counts_rows_records_and_units(made, tables, expected, tmp_path):
    counts = {each.column: each for each in omop_preview(made(tmp_path, tables))}
    measured = tables["measurement"].query("measurement_concept_id == 3038553")
    in_unit = (measured["unit_concept_id"] == 9531).sum()
    filled = expected["bmi"].notna().sum()
    assert counts["bmi"] == Preview("bmi", len(expected), filled, len(measured), in_unit)
    ill = tables["condition_occurrence"].query("condition_concept_id != 4329847")
    yes = (expected["diabetes"] == "yes").sum()
    assert counts["diabetes"] == ("diabetes", len(expected), yes, len(ill), len(ill))
    assert counts["sex"].filled == (expected["sex"] != "").sum()


def test_a_visit_is_a_row_within_its_person_s_cohort_entry(tables, tmp_path):
    study = STUDY.replace('rows = "cohort"', 'rows = "visits"')
    in_sqlite(tmp_path, tables)
    path = described(tmp_path, 'address = "sqlite:///cdm.db"', study)
    entries = tables["cohort"].query("cohort_definition_id == 7")
    joined = tables["visit_occurrence"].merge(entries, left_on="person_id", right_on="subject_id")
    within = joined.query("cohort_start_date <= visit_start_date <= cohort_end_date")
    assert omop_preview(path)[0].rows == within["visit_occurrence_id"].nunique() > 100


def test_rows_of_persons_have_no_date(tmp_path):
    tables = synthetic(500)
    study = 'rows = "persons"\nyear = 2026\n[columns.age]\nfrom = "age"\n'
    in_sqlite(tmp_path, tables)
    path = described(tmp_path, 'address = "sqlite:///cdm.db"', study)
    table = load_table(path, infer_schema(path))
    np.testing.assert_array_equal(table.numbers()[:, 0], 2026 - tables["person"]["year_of_birth"])


def test_later_records_of_other_days_change_no_row(tmp_path):
    """Else a site's noise, which follows from its rows in their order, would differ."""
    before, after, tables = tmp_path / "before", tmp_path / "after", synthetic(500)
    later = dict(tables)
    more = tables["measurement"].assign(measurement_date="2030-01-01")
    later["measurement"] = pd.concat([more[:100], tables["measurement"]])
    texts = []
    for folder, own in ((before, tables), (after, later)):
        folder.mkdir()
        path = in_sqlite(folder, own)
        texts.append(load_table(path, infer_schema(path)).numbers().tobytes())
    assert texts[0] == texts[1]


def test_the_command_counts_and_says_where_to_look(call, tmp_path):
    tables = synthetic(500)
    study = STUDY.replace("3038553", "3038999")
    in_sqlite(tmp_path, tables)
    path = described(tmp_path, 'address = "sqlite:///cdm.db"', study)
    code, said, _ = call("schema", "preview", path)
    assert code == 0
    assert "bmi: 0 rows have it, by 0 records" in said
    assert "LOOK: are concepts, unit and days right" in said
    code, said, _ = call("schema", "preview", path, "--json")
    assert json.loads(said)["columns"][0]["filled"] == 0


# what is refused


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("cohort = 7\n", ""), "rows of a cohort need its number"),
        (('"cohort"', '"persons"'), "say rows"),
        (('person = "pid"', 'person = "bmi"'), "two columns are called 'bmi'"),
        (("concepts = [3038553]\n", ""), "'bmi' names no concepts"),
        (('from = "age"', 'from = "age"\nconcepts = [1]'), "'age' takes no concepts"),
        (("[201820]", "[201820]\nunit = 1"), "'diabetes' is no number"),
        (("[-365, 0]", "[0, -365]"), "the days of 'bmi' end before they begin"),
        (("[-365, 0]", '["a", 0]'), r"\[columns.bmi\]: days holds something else than whole"),
        (('from = "sex"', 'from = "gender"'), r"\[columns.sex\]: from is none of the words"),
        (("unit = 9531", "units = 9531"), "unknown key 'units'"),
    ],
)
def test_a_study_that_contradicts_itself_says_where(change, why, tmp_path):
    path = described(tmp_path, 'address = "sqlite:///cdm.db"', STUDY.replace(*change))
    with pytest.raises(DatabaseAddressError, match=why):
        DatabaseSource.load(path)


@pytest.mark.parametrize("columns", ["", "columns = 3", "[columns]\nage = 3"])
def test_a_study_without_columns_is_refused(columns):
    with pytest.raises(ValueError, match="no tables"):
        OmopTable.loads(f"cohort = 7\n{columns}\n")


def test_a_study_beside_a_table_is_refused(tmp_path):
    path = described(tmp_path, 'address = "sqlite:///cdm.db"\ntable = "person"')
    with pytest.raises(DatabaseAddressError, match="or the omop file of a study"):
        DatabaseSource.load(path)


def test_only_a_study_of_an_omop_database_is_previewed(tmp_path):
    path = tmp_path / "plain.toml"
    path.write_text('address = "sqlite:///a.db"\ntable = "person"\n', "utf-8")
    with pytest.raises(DatabaseAddressError, match="names no OMOP study"):
        omop_preview(path)


@given(st.text(min_size=1, max_size=30))
def test_a_column_s_name_cannot_end_the_query(name):
    study = OmopTable(columns={name: OmopColumn(source="sex")}, rows="persons")
    with sqlite3.connect(":memory:") as database:
        database.execute(created("person"))
        database.execute("INSERT INTO person VALUES (1, 1990, 8507)")
        try:
            rows = database.execute(study.sql("sqlite"))
        except (sqlite3.Error, ValueError):  # such as a NUL within it
            rows = None
        if rows is not None:
            assert [each[0] for each in rows.description] == [name]
        assert database.execute("SELECT count(*) FROM person").fetchone() == (1,)
    database.close()


def test_the_strict_reader_refuses_unknown_keys_of_a_study():
    with pytest.raises(ValueError, match="unknown key 'cohorts'"):
        OmopTable.loads('cohorts = 7\n[columns.age]\nfrom = "age"\n')


@pytest.mark.follows("Write it as docs/howto/use-omop.md shows, or correct omop in")
def test_a_study_file_that_is_missing_or_wrong_is_named_itself(tmp_path):
    source = tmp_path / "source.toml"
    source.write_text('address = "duckdb:///cdm.db"\nomop = "study.toml"\n', "utf-8")
    with pytest.raises(DatabaseAddressError, match="study.toml.*No such file") as raised:
        DatabaseSource.load(source)
    assert str(source) in raised.value.remedy
    (tmp_path / "study.toml").write_text("rows = 3\n", "utf-8")
    with pytest.raises(
        DatabaseAddressError, match=r"study\.toml: the OMOP study that source\.toml"
    ):
        omop_preview(source)
    (tmp_path / "study.toml").write_text(STUDY, "utf-8")
    assert "first_pressure" in DatabaseSource.load(source).query
