"""Tables in memory: frames of several libraries, and one frame divided by a column."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cipherdag import Describe, Federation, FedPC
from cipherdag.errors import ParameterError, UnreadableDataError
from cipherdag.graphs.networks import asia

KINDS = {
    "pandas": lambda frame: frame,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "text views": lambda frame: pa.table(
        {name: pa.array(column, pa.string_view()) for name, column in frame.items()}
    ),
    "duckdb": lambda frame: duckdb.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)),
}


@pytest.fixture(scope="module")
def patients():
    frame = asia().sample(3000, np.random.default_rng(1))
    frame["hospital"] = np.array(["north", "south", "west"])[np.arange(3000) % 3]
    return frame


@pytest.fixture(scope="module")
def expected(patients):
    parts = {name: part.drop(columns="hospital") for name, part in patients.groupby("hospital")}
    return Federation.simulate(parts).run(FedPC()).finding.graph


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_any_library_with_a_column_of_sites_is_one_line(patients, expected, kind):
    federation = Federation.simulate(KINDS[kind](patients), sites="hospital")
    assert [site.name for site in federation.sites] == ["north", "south", "west"]
    result = federation.run(FedPC())
    assert "hospital" not in result.finding.graph.nodes
    assert result.finding.graph == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_of_sites_may_be_of_any_library(patients, expected, kind):
    parts = {
        name: KINDS[kind](part.drop(columns="hospital"))
        for name, part in patients.groupby("hospital")
    }
    assert Federation.simulate(parts).run(FedPC()).finding.graph == expected


@pytest.mark.parametrize("kind", ["pyarrow", "duckdb"])
def test_numbers_categories_and_missing_values_are_those_of_pandas(kind):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 90, 900),
            "pressure": rng.normal(120, 15, 900),
            "sex": rng.choice(["f", "m"], 900),
            "smoker": rng.choice([True, False], 900),
        }
    )
    frame.loc[::7, "pressure"] = np.nan
    frame["sex"] = frame["sex"].where(np.arange(900) % 11 > 0, None)
    parts = [frame[:300], frame[300:600], frame[600:]]
    here, there = (
        Federation.simulate(list(map(KINDS[each], parts))).run(Describe()).table("columns")
        for each in ("pandas", kind)
    )
    pd.testing.assert_frame_equal(here, there)


@pytest.mark.parametrize(
    ("change", "column", "said", "remedy"),
    [
        ({}, "hospitl", "no column 'hospitl'", "Did you mean 'hospital'?"),
        ({}, "ward", "no column 'ward'", "The columns are "),
        ({"hospital": [None, "north"] * 1500}, "hospital", "no site in 1500 rows", "Fill it in"),
        ({"hospital": ["St. Mary", "west"] * 1500}, "hospital", "'St. Mary' cannot", "letters"),
    ],
)
def test_what_cannot_divide_the_rows_is_named(patients, change, column, said, remedy):
    with pytest.raises(ParameterError) as raised:
        Federation.simulate(patients.assign(**change), sites=column)
    assert said in raised.value.message
    assert remedy in raised.value.remedy


def test_what_is_no_frame_is_named(tmp_path):
    with pytest.raises(UnreadableDataError, match="list is neither a path nor a DataFrame"):
        Federation.simulate([[1, 2], [3, 4]])
    with pytest.raises(ParameterError) as raised:
        Federation.simulate(tmp_path / "patients.csv", sites="hospital")
    assert "Read it into a DataFrame first" in raised.value.remedy
    with pytest.raises(ParameterError) as raised:
        Federation.simulate(pd.DataFrame({"a": [1]}))
    assert "sites='COLUMN'" in raised.value.remedy
