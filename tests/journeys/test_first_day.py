"""Three hospitals that write their data in three ways agree on a schema and learn one graph."""

import shutil
import sqlite3

import hospital_folders
import numpy as np
import openpyxl
import pandas as pd
import pytest
from documents import blocks

from cipherdag.errors import DataError
from cipherdag.federation.simulated import Federation
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

OMOP_PAGE = "docs/howto/use-omop.md"
SAID = {"north": ("nein", "ja"), "south": ("No", "Yes"), "west": ("no", "yes")}


def patients(rows, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(30, 85, rows)
    bmi = (22 + 0.06 * age + rng.normal(0, 3, rows)).round(1)
    pressure = (60 + 0.4 * age + 1.6 * bmi + rng.normal(0, 9, rows)).round(1)
    ill = rng.random(rows) < 1 / (1 + np.exp(-(bmi - 29) / 2))
    sex = rng.choice(["female", "male"], rows)
    return pd.DataFrame({"age": age, "bmi": bmi, "diabetes": ill, "pressure": pressure, "sex": sex})


PATIENTS = {"north": patients(700, 0), "south": patients(500, 1), "west": patients(600, 2)}


def clean(folder):
    """The three tables as plain CSV, all spelt alike."""
    folder.mkdir()
    for name, frame in PATIENTS.items():
        words = frame.assign(diabetes=np.where(frame["diabetes"], "yes", "no"))
        words.to_csv(folder / f"{name}.csv", index=False)
    return [folder / f"{name}.csv" for name in PATIENTS]


def spelt(name):
    no, yes = SAID[name]
    return PATIENTS[name].assign(diabetes=np.where(PATIENTS[name]["diabetes"], yes, no))


def north(folder):
    """A CSV of Excel in Germany: semicolons, decimal commas, Windows-1252, another name."""
    frame = spelt("north").rename(columns={"pressure": "Blutdruck (höherer)"})
    frame.to_csv(folder / "north.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    path = folder / "north.toml"
    path.write_text(
        'file = "north.csv"\ndelimiter = ";"\ndecimal = ","\nencoding = "cp1252"\n'
        'rename = { "Blutdruck (höherer)" = "pressure" }\n',
        "utf-8",
    )
    return path


def south(folder):
    """A workbook with a title above the table, and a second sheet."""
    book = openpyxl.Workbook()
    book.active.title = "patients"
    frame = spelt("south")
    for row in (["Patients of 2026"], [], list(frame.columns), *frame.to_numpy().tolist()):
        book.active.append(row)
    book.create_sheet("notes")
    book.save(folder / "south.xlsx")
    path = folder / "south.toml"
    path.write_text('file = "south.xlsx"\nsheet = "patients"\nskip_rows = 2\n', "utf-8")
    return path


def omop_rows(frame):
    """The tables of OMOP that the page's study reads."""
    entered, people, measured, found = [], [], [], []
    for person, own in enumerate(frame.itertuples()):
        entered.append((1771, person, "2026-03-01", "2026-12-31"))
        people.append((person, 2026 - own.age, 8507 if own.sex == "male" else 8532))
        for concept, value, unit in (
            (3038553, own.bmi, 9531),
            (3004249, own.pressure, 8876),
            (3004249, own.pressure * 10, 0),  # of no unit: not to be read
        ):
            measured.append((len(measured), person, concept, "2026-02-20", value, unit))
        for concept in (201826, 201826) if own.diabetes else (4329847,):
            found.append((len(found), person, concept, "2021-05-17"))
    return {
        "cohort": entered, "person": people, "measurement": measured,
        "condition_occurrence": found, "concept_ancestor": [(1, 1)],
    }  # fmt: skip


TABLES = """
CREATE TABLE cohort (cohort_definition_id INT, subject_id INT, cohort_start_date TEXT,
  cohort_end_date TEXT);
CREATE TABLE person (person_id INT, year_of_birth INT, gender_concept_id INT);
CREATE TABLE measurement (measurement_id INT, person_id INT, measurement_concept_id INT,
  measurement_date TEXT, value_as_number FLOAT, unit_concept_id INT);
CREATE TABLE condition_occurrence (condition_occurrence_id INT, person_id INT,
  condition_concept_id INT, condition_start_date TEXT);
CREATE TABLE concept_ancestor (ancestor_concept_id INT, descendant_concept_id INT);
"""


def west(folder):
    """The study of the OMOP page over an SQLite database."""
    with sqlite3.connect(folder / "west.db") as database:
        database.executescript(TABLES)
        for table, rows in omop_rows(PATIENTS["west"]).items():
            marks = ", ".join("?" * len(rows[0]))
            database.executemany(
                f"INSERT INTO {table} VALUES ({marks})", np.array(rows, dtype=object).tolist()
            )
    database.close()
    (study,) = [block for block in blocks(OMOP_PAGE) if block.how.get("saved as") == "study.toml"]
    (folder / "study.toml").write_text(study.code, "utf-8")
    path = folder / "west.toml"
    path.write_text('address = "sqlite:///west.db"\nomop = "study.toml"\n', "utf-8")
    return path


def edges(folder):
    return sorted((folder / "edges.csv").read_text("utf-8").splitlines())


def test_a_schema_of_three_drafts_gives_the_graph_of_clean_files(call, tmp_path):
    files = [north(tmp_path), south(tmp_path), west(tmp_path)]
    drafts = []
    for file in files:
        drafts.append(tmp_path / f"{file.stem}-draft.toml")
        assert call("schema", "infer", file, "--out", drafts[-1])[0] == 0
    merged = tmp_path / "schema.toml"
    code, told, _ = call("schema", "merge", *drafts, "--out", merged)
    assert code == 0
    assert "'diabetes': 'No' in 'south-draft', 'nein' in 'north-draft' read as 'no'" in told
    schema = Schema.load(merged)
    assert schema.names == ("age", "bmi", "diabetes", "pressure", "sex")
    assert not [own for own in schema.columns if own.kind == "ignore"]
    plain = clean(tmp_path / "clean")
    shutil.copy(merged, tmp_path / "clean" / "schema.toml")
    for out, own in (("odd", files), ("plain", plain)):
        code, _, error = call(
            "run", "fedpc", *own, "--schema", merged, "--device", "cpu", "--out", tmp_path / out
        )
        assert code == 0, error
    assert edges(tmp_path / "odd") == edges(tmp_path / "plain")
    assert len(edges(tmp_path / "odd")) > 3
    # to the last bit: the tables are the same
    for file, own in zip(files, plain, strict=True):
        one, two = load_table(file, schema), load_table(own, schema)
        np.testing.assert_array_equal(one.codes, two.codes)
        np.testing.assert_array_equal(one.values, two.values)


def test_too_many_categories_are_taken_for_free_text(tmp_path):
    path = tmp_path / "site.csv"
    lines = (f"word {k},{k % 2}" for k in range(150_000))
    path.write_text("\n".join(["name,ill", *lines]), "utf-8")
    with pytest.raises(DataError, match="'name'") as caught:
        Federation.simulate([path], device="cpu")
    assert "schema infer" in caught.value.remedy
    assert "word" not in str(caught.value)


def test_a_site_of_a_real_study_opens_its_described_file(tmp_path):
    hospitals = hospital_folders.hospitals(tmp_path)
    folder = hospitals.folders["hospital-0"]
    before = hospitals.open("hospital-0")._profile
    hospitals.close()
    text = (folder.path / "data.csv").read_text("utf-8").replace(",", "\t")
    (folder.path / "data.csv").write_text(text, "utf-16")
    settings = folder.settings_path.read_text("utf-8")
    described = '[source]\ndelimiter = "\\t"\nencoding = "utf-16"\n'
    folder.settings_path.write_text(f"{settings}\n{described}", "utf-8")
    after = hospitals.open("hospital-0")._profile
    assert (after.rows, after.schema) == (before.rows, before.schema)
    hospitals.close()


def test_what_a_site_s_own_settings_describe_is_read_and_checked(call, tmp_path):
    code, *_ = call("site", "new", "north", "--algorithm", "fedpc", "--dir", tmp_path / "site")
    assert code == 0
    source = north(tmp_path)
    site = tmp_path / "site"
    shutil.copy(tmp_path / "north.csv", site / "data.csv")
    settings = (site / "site.toml").read_text("utf-8")
    assert "# [source]" in settings
    call("schema", "infer", source, "--out", site / "schema.toml")
    code, told, _ = call("site", "check", "--dir", site)
    assert "the byte 0xF6 in line 1 is not UTF-8" in told
    assert 'encoding = "cp1252"' in told
    (site / "site.toml").write_text(f'{settings}\n[source]\nencoding = "cp1252"\n', "utf-8")
    code, told, _ = call("site", "check", "--dir", site)
    assert "the columns are separated by semicolons" in told
    assert 'delimiter = ";"' in told
    described = source.read_text("utf-8").split("\n", 1)[1]
    (site / "site.toml").write_text(f"{settings}\n[source]\n{described}", "utf-8")
    code, told, _ = call("site", "check", "--dir", site)
    assert "readable and as the schema says, mixed" in told
    rows = (site / "data.csv").read_text("cp1252").splitlines()
    rows[20] = rows[20].replace("nein", "nee").replace("ja", "nee")
    (site / "data.csv").write_text("\n".join(rows), "cp1252")
    code, told, _ = call("site", "check", "--dir", site)
    assert "column 'diabetes', row 21 of the file" in told
    assert "nee" not in told
