"""A run over the very tables that a draft was made from does not stop at a constant column."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import Federation, FedPC
from cipherdag.errors import ConstantColumnError, DataError
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

ROWS = 60


def three(**columns):
    """Tables of a varying number beside the columns given, by table one value or an array."""
    rng = np.random.default_rng(2)
    return [
        pd.DataFrame({"age": rng.normal(60, 9, ROWS)} | {n: own[k] for n, own in columns.items()})
        for k in range(3)
    ]


def column(schema, name):
    return next(own for own in schema.columns if own.name == name)


NUMBERS = np.random.default_rng(3).normal(size=(3, ROWS))
WORDS = np.array(["no", "yes"] * (ROWS // 2))


@pytest.mark.parametrize(
    ("held", "number"),
    [
        ([WORDS, ["no"] * ROWS, WORDS], "2"),
        ([WORDS, WORDS, [None] * ROWS], "3"),
        ([[1.5] * ROWS, *NUMBERS[1:]], "1"),
        ([NUMBERS[0], ["NA", "2.5"] * (ROWS // 2), NUMBERS[2]], "2"),
        ([NUMBERS[0], ["2.5", "2.50"] * (ROWS // 2), NUMBERS[2]], "2"),
    ],
)
def test_what_one_file_holds_once_only_is_permitted_and_pointed_out(held, number):
    tables = three(own=held)
    drafted = infer_schema(tables)
    own = column(drafted, "own")
    assert own.allow_constant
    assert f"LOOK: In file {number} of those drafted from" in own.comment
    assert not column(drafted, "age").allow_constant
    again = Schema.loads(drafted.dumps())
    found = Federation.simulate(tables, schema=again, device="cpu").run(FedPC())
    assert "own" in found.finding.graph.nodes


def test_what_varies_in_no_file_is_ignored():
    tables = three(hospital=["a", "b", "c"], age_2=NUMBERS, age_3=NUMBERS + 1)
    drafted = infer_schema(tables)
    assert column(drafted, "hospital").kind == "ignore"
    assert "in each file" in column(drafted, "hospital").comment
    assert (
        Federation.simulate(tables, schema=drafted, device="cpu").run(FedPC()).finding.graph.nodes
    )


@pytest.mark.parametrize("text", ["5", "1.5"])
def test_a_number_beside_words_for_missing_ones_is_constant(text):
    table = pd.DataFrame({"age": NUMBERS[0], "own": [text, "NA"] * (ROWS // 2)})
    own = column(infer_schema(table), "own")
    assert own.kind == "ignore"
    assert "one value only" in own.comment
    parts = dict.fromkeys("abc", table)
    graph = Federation.simulate(parts, device="cpu").run(FedPC()).finding.graph
    assert graph.nodes == ("age",)


CELLS = st.sampled_from(["", "NA", "1", "1.0", "2", "2.5", "2.50", "no", "yes"])
FEW = st.lists(CELLS, min_size=1, max_size=3)
FILES = st.lists(FEW.map(lambda own: (own * 12)[:12]), min_size=1, max_size=3)


@given(FILES)
def test_whatever_files_hold_their_draft_stops_at_no_constant_column(files):
    tables = [pd.DataFrame({"age": NUMBERS[0, :12], "own": cells}) for cells in files]
    drafted = infer_schema(tables)
    for table in tables:
        refused = refusal(table, drafted)
        assert not isinstance(refused, ConstantColumnError)
        # words among numbers are pointed out, and reading them names the first
        assert refused is None or "LOOK" in column(drafted, "own").comment


def refusal(table, schema):
    try:
        load_table(table, schema)
    except DataError as error:
        return error
    return None
