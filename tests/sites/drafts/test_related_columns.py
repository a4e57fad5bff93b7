"""Relations are found whatever the order of rows and columns, and none in independent columns."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.graphs.relations import Relation
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.drafts.related_columns import contradicted, related_columns
from cipherdag.sites.table.site_table import load_table


def planted(rng, n):
    """A table with one relation of every form, and what they are."""
    a, b, x = rng.normal(size=(3, n))
    g = rng.integers(0, 3, n)
    rows = pd.DataFrame({"a": a, "b": b, "x": x, "total": 2 * a - b})
    rows["inches"] = x / 2.54
    rows["cut"] = np.digitize(a, [-0.5, 0.7]).astype(str)
    rows["p"], rows["q"] = np.exp(b + rng.normal(size=n)), rng.uniform(1, 2, n)
    rows["ratio"] = rows["p"] / rows["q"]
    for k in range(3):
        rows[f"hot{k}"] = np.where(g == k, "yes", "no")
    return rows, {
        ("sum", frozenset(("a", "b", "total"))),
        ("coded", frozenset(("x", "inches"))),
        ("function", frozenset(("cut", "a"))),
        ("product", frozenset(("p", "q", "ratio"))),
        ("one-hot", frozenset(("hot0", "hot1", "hot2"))),
    }


def found(rows):
    table = load_table(rows, infer_schema(rows))
    return {(own.form, frozenset(own.columns)) for own in related_columns(table)}


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_what_is_planted_is_found_and_nothing_else(seed, gaps):
    rng = np.random.default_rng(seed)
    rows, right = planted(rng, 900)
    if gaps:
        rows = rows.mask(rng.random(rows.shape) < 0.03)
    rows = rows.sample(frac=1.0, random_state=seed % 1000)[rng.permutation(rows.columns)]
    assert found(rows) == right


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_relations_do_not_depend_on_units(size):
    rows, right = planted(np.random.default_rng(3), 900)
    rows[["a", "b", "total", "x"]] *= size
    assert found(rows) == right


@pytest.mark.parametrize("seed", range(12))
def test_independent_and_dependent_columns_have_no_relation(seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(40, 400)), 12
    values = np.cumsum(rng.normal(size=(n, p)), axis=1)
    rows = pd.DataFrame(values, columns=[f"v{k}" for k in range(p)])
    for k in range(0, p, 3):
        rows[f"v{k}"] = (rows[f"v{k}"] > rng.normal()).map({True: "yes", False: "no"})
    rows = rows.loc[:, (rows != rows.iloc[0]).any()]
    assert found(rows) == set()


def test_rows_of_all_tables_count_together():
    rng = np.random.default_rng(0)
    rows, right = planted(rng, 900)
    parts = [rows[k::3] for k in range(3)]
    assert {(own.form, frozenset(own.columns)) for own in infer_schema(parts).relations} == right
    other = parts[2].assign(total=parts[2]["total"] + rng.normal(size=300))
    kept = {
        (own.form, frozenset(own.columns)) for own in infer_schema([*parts[:2], other]).relations
    }
    assert kept == {own for own in right if own[0] != "sum"}


def test_few_rows_contradict_no_relation_and_wrong_ones_do():
    rows = pd.DataFrame({"a": [1.5, 2.5, 3.5, 4.5] * 5, "b": ["x", "x", "y", "y"] * 5})
    schema = infer_schema(rows.astype({"a": str}))
    table = load_table(rows.astype({"a": str}), schema)
    assert not contradicted(Relation("function", ("b", "a")), table)
    assert contradicted(Relation("function", ("a", "b")), table)


def cut_by_group(rng, n, differing):
    """A number's threshold is another for so many rows of one group; with the third column."""
    number, group = rng.integers(60, 140, n), np.where(rng.random(n) < 0.5, "F", "M")
    over = number > 100
    over[np.flatnonzero((number == 101) & (group == "F"))[:differing]] = False
    over[np.flatnonzero((number == 101) & (group == "F"))[differing:]] = True
    return pd.DataFrame({"glucose": number * 1.0, "sex": group, "high": np.where(over, "y", "n")})


def test_a_relation_of_three_needs_more_than_one_pair_of_rows():
    rng = np.random.default_rng(5)
    rows = cut_by_group(rng, 420, 0)
    rows = rows[(rows.glucose != 101) | (rows.sex == "M")]
    pair = pd.DataFrame({"glucose": [101.0] * 2, "sex": ["F"] * 2, "high": ["n"] * 2})
    assert found(pd.concat([rows, pair], ignore_index=True)) == set()


def test_a_relation_of_three_shows_at_two_sites():
    rng = np.random.default_rng(6)
    shown = [cut_by_group(rng, 400, 0).assign(glucose=lambda own: own.glucose // 8) for _ in "abc"]
    for own in shown:
        own["high"] = np.where(own.glucose > np.where(own.sex == "F", 10, 13), "y", "n")
    of_one = [own[(own.glucose < 11) | (own.glucose > 13)] for own in shown]
    relation = ("function", frozenset(("glucose", "sex", "high")))
    several = {
        name: {(own.form, frozenset(own.columns)) for own in infer_schema(parts).relations}
        for name, parts in {"two": [*shown[:2], of_one[2]], "one": [shown[0], *of_one[1:]]}.items()
    }
    assert relation in several["two"]
    assert relation not in several["one"]
