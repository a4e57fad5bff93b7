"""Rows that come by Arrow, block by block, and the same rows otherwise."""

import datetime as dt

import duckdb
import numpy as np
import pandas as pd
import pytest

from cipherdag.errors import DatabaseError, UnreadableDataError
from cipherdag.sites.drafts.inference import infer_columns
from cipherdag.sites.table.cells import ColumnType
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.reading import open_table
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

TYPES = {
    "BOOLEAN": "k % 3 = 0", "TINYINT": "k % 100", "UTINYINT": "k % 200", "SMALLINT": "k",
    "INTEGER": "k - 7", "BIGINT": "9007199254740990 + k", "UBIGINT": "k", "FLOAT": "k / 3",
    "DOUBLE": "k / 7", "VARCHAR": "'Größe ' || (k % 5)", "kind": "CASE k % 2 WHEN 0 THEN 'b' "
    "ELSE 'a' END", "USMALLINT": "k", "UINTEGER": "k",
}  # fmt: skip
SCHEMA = Schema(
    (
        Column("sex", "discrete", categories=("f", "m"), missing=("?",)),
        Column("smokes", "discrete", categories=("0", "1")),
        Column("count", "discrete", categories=tuple(map(str, range(10)))),
        Column("age", "continuous"),
        Column("day", "continuous", date="days since 2000-01-01"),
        Column("pressure", "binned", edges=(119.0, 139.0)),
    )
)


def cells(path):
    """The text of every cell, column by column."""
    with open_table(path) as table:
        blocks = list(table.chunks)
    return [
        [block[v].as_text().at(row) for block in blocks for row in range(len(block[v]))]
        for v in range(len(blocks[0]))
    ]


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_a_duckdb_column_says_the_same_by_arrow_and_one_by_one(tmp_path, monkeypatch, kind, gaps):
    with duckdb.connect(str(tmp_path / "own.duckdb")) as connection:
        connection.execute("CREATE TYPE kind AS ENUM ('a', 'b', 'c')")
        connection.execute(f"CREATE TABLE t (v {kind})")
        lost = "k % 4 = 1" if gaps else "false"
        connection.execute(
            f"INSERT INTO t SELECT CASE WHEN {lost} THEN NULL ELSE {TYPES[kind]} END "
            "FROM (SELECT range AS k FROM range(100))"
        )
    found = cells(tmp_path / "own.duckdb")
    monkeypatch.setattr("cipherdag.sites.table.duckdb_file.find_spec", lambda _: None)
    assert found == cells(tmp_path / "own.duckdb")
    assert len(set(found[0])) > 1


def test_a_query_that_fails_on_the_data_quotes_no_cell(tmp_path):
    with duckdb.connect(str(tmp_path / "own.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'secret' AS v FROM range(5000)")
        connection.execute("CREATE VIEW w AS SELECT CAST(v AS INTEGER) AS v FROM t")
    described = tmp_path / "own.toml"
    described.write_text('address = "duckdb:///own.duckdb"\ntable = "w"\n')
    with pytest.raises(DatabaseError) as caught:
        load_table(described, SCHEMA)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("block", [1, 7, 64, 10_000])
def test_a_parquet_file_reads_as_its_frame_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    rng = np.random.default_rng(2)
    days = [dt.date(2001, 1, 1) + dt.timedelta(days=int(own)) for own in rng.integers(0, 9, 200)]
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m", None, "?"], 200),
            "smokes": rng.choice([True, False, None], 200),
            "count": pd.array(rng.choice([0, 3, 9, None], 200), dtype="Int64"),
            "age": np.where(rng.random(200) < 0.1, np.nan, rng.normal(50, 9, 200)),
            "day": days,
            "pressure": pd.Categorical(rng.choice([110.0, 120.0, 150.0], 200)),
        }
    )
    monkeypatch.setattr("cipherdag.sites.table.data_frame.BATCH_ROWS", block)
    frame.to_parquet(tmp_path / "own.parquet", row_group_size=90)
    found, expected = load_table(tmp_path / "own.parquet", SCHEMA), load_table(frame, SCHEMA)
    assert np.array_equal(found.codes, expected.codes)
    assert np.array_equal(found.values, expected.values, equal_nan=True)
    with open_table(tmp_path / "own.parquet") as table:
        assert len(next(table.chunks)[0]) == min(block, 200)


def test_an_ordered_column_keeps_its_categories_across_row_groups(tmp_path):
    own = pd.Categorical(["low"] * 50 + ["high"] * 50, ["low", "middle", "high"], ordered=True)
    pd.DataFrame({"stage": own}).to_parquet(tmp_path / "own.parquet", row_group_size=50)
    with open_table(tmp_path / "own.parquet") as table:
        (declared,) = table.types
    assert declared == ColumnType("enum", declared.name, ("low", "middle", "high"), ordered=True)


def test_a_parquet_file_that_is_damaged_in_a_later_block_is_refused(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    pd.DataFrame({"age": rng.normal(size=20_000)}).to_parquet(
        tmp_path / "own.parquet", row_group_size=5000
    )
    content = bytearray((tmp_path / "own.parquet").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40_000] = b"\xff" * 40_000
    (tmp_path / "own.parquet").write_bytes(content)
    monkeypatch.setattr("cipherdag.sites.table.data_frame.BATCH_ROWS", 500)
    with pytest.raises(UnreadableDataError, match="not a whole Parquet file"):
        load_table(tmp_path / "own.parquet", Schema((Column("age", "continuous"),)), site="charite")


@pytest.mark.parametrize("first", [True, False])
def test_a_column_of_lists_that_is_ignored_stops_no_file(tmp_path, first):
    lists = [[k % 3] if k % 5 else None for k in range(60)]
    frame = pd.DataFrame({"sex": ["f", "m"] * 30})
    frame.insert(0 if first else 1, "codes", lists)
    frame.to_parquet(tmp_path / "lists.parquet")
    schema = Schema((SCHEMA.columns[0], Column("codes", "ignore")))
    for source in (frame, tmp_path / "lists.parquet"):
        assert load_table(source, schema).names == ("sex",)
        drafted = {own.name: own for own in infer_columns([source]).columns}
        assert drafted["codes"].kind == "ignore"
