"""Hospitals hand in files as their systems write them, and nobody describes one first."""

import logging
import re
import shutil

import hospital_folders
import numpy as np
import pandas as pd
import pytest

from cipherdag.errors import DataError
from cipherdag.federation.simulated import Federation
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table


def patients(rows, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(30, 85, rows)
    pressure = (60 + 0.9 * age + rng.normal(0, 9, rows)).round(1)
    town = rng.choice(["Köln", "Würzburg"], rows)
    smoker = rng.choice(["ja", "nein"], rows)
    return pd.DataFrame({"Alter": age, "Druck": pressure, "Ort": town, "Raucher": smoker})


NORTH, SOUTH, WEST = (patients(rows, seed) for seed, rows in enumerate((300, 250, 200)))


def handed_in(folder):
    """A CSV of a German Excel, a workbook of two sheets, and a CSV with row numbers."""
    NORTH.to_csv(folder / "north.csv", sep=";", decimal=",", index=False, encoding="latin-1")
    with pd.ExcelWriter(folder / "south.xlsx") as book:
        pd.DataFrame({"note": ["exported in May"]}).to_excel(book, sheet_name="Info", index=False)
        SOUTH.to_excel(book, sheet_name="Daten", index=False)
    WEST.to_csv(folder / "west.csv")
    return [folder / name for name in ("north.csv", "south.xlsx", "west.csv")]


def test_a_draft_reads_files_as_they_are_and_says_their_notation(call, caplog, tmp_path):
    files, draft = handed_in(tmp_path), tmp_path / "schema.toml"
    code, _, error = call("schema", "infer", *files, "--out", draft)
    assert code == 0, error
    said = caplog.text
    assert 'north.csv is read with delimiter = ";", encoding = "cp1252", decimal = ","' in said
    assert 'south.xlsx is read with sheet = "Daten"' in said
    assert "west.csv is read with skip_unnamed = true" in said
    schema = Schema.load(draft)
    assert [each.kind for each in schema.columns] == ["continuous"] * 2 + ["discrete"] * 2
    assert schema.columns[2].categories == ("Köln", "Würzburg")
    for file, frame in zip(files, (NORTH, SOUTH, WEST), strict=True):
        read, expected = load_table(file, schema), load_table(frame, schema)
        np.testing.assert_array_equal(read.codes, expected.codes)
        np.testing.assert_array_equal(read.values, expected.values)
    code, _, error = call("run", "fedpc", *files, "--schema", draft, "--out", tmp_path / "result")
    assert code == 0, error


def test_a_run_without_a_schema_reads_them_and_says_so(caplog, tmp_path):
    files = handed_in(tmp_path)
    with caplog.at_level(logging.WARNING, logger="cipherdag.data"):
        federation = Federation.simulate(files, device="cpu")
    assert [site.table.rows for site in federation.sites] == [300, 250, 200]
    assert 'south.xlsx is read with sheet = "Daten"' in caplog.text


def test_a_column_that_not_all_files_have_is_left_out(call, tmp_path):
    files = [tmp_path / f"{name}.csv" for name in "abcdef"]
    for k, file in enumerate(files):
        frame = patients(150, k)
        frame["Tier"] = np.where(frame["Alter"] % 2, "Hund", "Katze")
        (frame if k < 3 else frame.drop(columns="Tier")).to_csv(file, index=False)
    draft = tmp_path / "schema.toml"
    code, _, error = call("schema", "infer", *files, "--out", draft)
    assert code == 0, error
    text = draft.read_text("utf-8")
    said = " ".join(text.replace("\n# ", " ").split())
    ((kind, rest),) = re.findall(r'measured there, write (kind = "discrete"), (.*?\])\.', said)
    assert Schema.load(draft).ignored == ("Tier",)
    assert call("run", "fedpc", *files, "--schema", draft, "--device", "cpu")[0] == 0
    table = text.split('[columns.Tier]\nkind = "ignore"\n')
    categories, unmeasured = rest.split(" and ")
    assert unmeasured == 'unmeasured_at = ["d", "e", "f"]'
    draft.write_text(f"[columns.Tier]\n{kind}\n{categories}\n{unmeasured}\n".join(table), "utf-8")
    code, shown, error = call("run", "fedpc", *files, "--schema", draft, "--device", "cpu")
    assert code == 0, error
    assert "Tier" in shown


@pytest.mark.parametrize(
    ("cells", "keys"),
    [
        (["120,5", "1.120,5", "99"], {"decimal": ",", "thousands": "."}),
        (["120,5", "99,25", "1,000"], {"decimal": ",", "thousands": ""}),
        (["1,234", "9,125"], {}),  # thousands or decimals
        (["1,234", "9,125,000"], {"decimal": ".", "thousands": ","}),
        (["1 234,5", "7,25"], {"decimal": ",", "thousands": " "}),
        (["12.5", "99.25"], {}),
    ],
)
def test_a_notation_is_taken_where_no_other_gives_other_numbers(tmp_path, cells, keys):
    lines = [f"{cell};{k % 2}" for k, cell in enumerate(cells * 10)]
    (tmp_path / "site.csv").write_text("\n".join(["x;y", *lines]), "utf-8")
    written = infer_schema(tmp_path / "site.csv").sources["site.csv"]
    assert (written.decimal, written.thousands) == (
        keys.get("decimal", "."),
        keys.get("thousands", ""),
    )


def test_a_notation_that_another_column_contradicts_is_not_taken(tmp_path):
    lines = [f"{k}.5;{k},5" for k in range(30)]
    (tmp_path / "site.csv").write_text("\n".join(["x;y", *lines]), "utf-8")
    schema = infer_schema(tmp_path / "site.csv")
    assert schema.sources["site.csv"].decimal == "."
    assert "another notation" in schema.columns[1].comment


def test_marks_of_missing_numbers_are_missing_in_texts_of_the_draft(tmp_path):
    frame = NORTH.astype({"Druck": object, "Raucher": object})
    frame.loc[3, "Druck"] = frame.loc[5, "Raucher"] = "NA"
    frame["Land"] = np.where(np.arange(300) % 2, "NA", "DE")  # one category would be left
    frame.to_csv(tmp_path / "site.csv", index=False)
    schema = infer_schema(tmp_path / "site.csv")
    columns = {each.name: each for each in schema.columns}
    assert columns["Druck"].missing == columns["Raucher"].missing == ("NA",)
    assert columns["Raucher"].categories == ("nein", "ja")
    assert "as in columns of numbers" in columns["Raucher"].comment
    assert columns["Land"].categories == ("DE", "NA")
    assert load_table(tmp_path / "site.csv", schema).rows == 300


@pytest.mark.parametrize("cells", [[[1, 2]] * 300, [[k] for k in range(300)]])
def test_a_nested_column_is_said_to_be_one(tmp_path, cells):
    NORTH.assign(visits=cells).to_parquet(tmp_path / "site.parquet")
    column = infer_schema(tmp_path / "site.parquet").columns[4]
    assert column.comment.startswith("list<element: int64>")
    assert "neither a number nor a category" in column.comment


def test_without_a_schema_a_nested_column_is_said_to_be_one(tmp_path):
    NORTH.assign(visits=[[k] for k in range(300)]).to_parquet(tmp_path / "site.parquet")
    with pytest.raises(DataError, match="neither a number nor a category") as caught:
        Federation.simulate([tmp_path / "site.parquet"] * 3)
    assert "identifier" not in str(caught.value)


def test_python_is_answered_in_python(tmp_path):
    identified = NORTH.assign(person=[f"p-{k}" for k in range(300)])
    with pytest.raises(DataError) as caught:
        Federation.simulate({"a": identified, "b": identified, "c": identified})
    assert "`infer_schema`" in caught.value.remedy
    assert "in Python as schema" in caught.value.remedy
    schema = infer_schema(identified)  # as it says
    assert Federation.simulate([identified] * 3, schema=schema).sites[0].table.rows == 300


def test_a_real_site_reads_its_file_by_its_draft(tmp_path):
    hospitals = hospital_folders.hospitals(tmp_path)
    folder = hospitals.folders["hospital-0"]
    before = hospitals.open("hospital-0")._profile
    hospitals.close()
    data = folder.path / "data.csv"
    data.write_text(data.read_text("utf-8").replace(",", ";"), "utf-8")
    schema = folder.path / "schema.toml"
    shutil.copy(schema, tmp_path / "agreed.toml")
    described = schema.read_text("utf-8") + '\n[sources."data.csv"]\ndelimiter = ";"\n'
    schema.write_text(described, "utf-8")
    after = hospitals.open("hospital-0")._profile
    assert (after.rows, after.schema) == (before.rows, before.schema)
    hospitals.close()
