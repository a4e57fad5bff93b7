"""What holds for every source of a table: it reads as the CSV of the same rows."""

import os
import threading

import duckdb
import numpy as np
import pandas as pd
import pytest

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table.reading import READABLE, SOURCES, source_of
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

FRAME = pd.DataFrame({"age": [31.5, None, 47.0, 52.25], "sex": ["f", "m", None, "f"]})
SCHEMA = Schema.loads(
    '[columns.age]\nkind = "continuous"\n'
    '[columns.sex]\nkind = "discrete"\ncategories = ["f", "m"]\n'
)


def csv(folder):
    FRAME.to_csv(folder / "table", index=False)
    return folder / "table"


def parquet(folder):
    FRAME.to_parquet(folder / "table")
    return folder / "table"


def duckdb_file(folder):
    with duckdb.connect(str(folder / "table")) as connection:
        connection.register("frame", FRAME)
        connection.execute("CREATE TABLE patients AS SELECT * FROM frame")
    return folder / "table"


def excel(folder):
    FRAME.to_excel(folder / "table.xlsx", index=False)
    return (folder / "table.xlsx").rename(folder / "table")


def stata(folder):
    FRAME.to_stata(folder / "table.dta", write_index=False)
    return folder / "table.dta"


def described(folder):
    duckdb_file(folder)
    (folder / "source.toml").write_text('address = "duckdb:///table"\ntable = "patients"\n')
    return folder / "source.toml"


WRITERS = {
    "CSV": csv,
    "Excel (.xlsx)": excel,
    "Stata (.dta)": stata,
    "Parquet": parquet,
    "DuckDB": duckdb_file,
    "a .toml that names a database or describes a file": described,
}


def test_every_source_is_tried_here():
    assert [source.words for source in SOURCES] == list(WRITERS)


@pytest.mark.parametrize("source", SOURCES, ids=lambda own: own.words)
def test_a_source_is_known_by_name_or_content_and_reads_as_the_csv(tmp_path, source):
    path = WRITERS[source.words](tmp_path)
    assert source_of(path) is source
    (tmp_path / "plain").mkdir()
    found, expected = load_table(path, SCHEMA), load_table(csv(tmp_path / "plain"), SCHEMA)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert set(infer_schema(path, min_cell_size=0).names) == {"age", "sex"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda own: own.words)
def test_help_and_errors_name_it(tmp_path, source):
    assert source.words in READABLE
    with pytest.raises(UnreadableDataError) as refused:
        load_table(tmp_path / "nothing.csv", SCHEMA)
    assert source.words in refused.value.remedy


def test_a_pipe_is_a_csv(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    text = csv(tmp_path).read_text("utf-8")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text, "utf-8"))
    writer.start()
    found = load_table(tmp_path / "pipe", SCHEMA)
    writer.join()
    np.testing.assert_array_equal(found.codes, load_table(tmp_path / "table", SCHEMA).codes)
