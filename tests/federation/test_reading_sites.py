"""What is said of sites' data before a run in one process, and what is left out of it."""

import logging

import numpy as np
import pandas as pd
import pytest

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import (
    CohortError,
    ConstantColumnError,
    DataError,
    NotNumericError,
    ParameterError,
    SchemaError,
)
from cipherdag.federation.simulated import Federation
from cipherdag.graphs.networks import asia
from cipherdag.sites.drafts.inference import infer_schema

# without the column that follows from two others, which is said of the data
WHOLE = asia().sample(1500, np.random.default_rng(3)).drop(columns="TubOrCancer")


def thirds(frame=WHOLE):
    return {name: frame.iloc[k::3].reset_index(drop=True) for k, name in enumerate("abc")}


def learnt(data, **options):
    return Federation.simulate(data, device="cpu", **options).run(FedPC()).finding.graph


def of_data(caplog):
    """What was said of the data; a result has warnings of its own."""
    return [own.getMessage() for own in caplog.records if own.name == "cipherdag.data"]


def test_a_column_constant_everywhere_is_left_out_with_a_warning(caplog):
    plain = learnt(thirds())
    assert not of_data(caplog)
    assert learnt(thirds(WHOLE.assign(country="DE"))) == plain
    assert "'country' is left out: it holds one value only, or none" in caplog.text


def test_an_index_with_a_name_is_said_to_be_no_column(caplog):
    data = {name: own.rename_axis("patient") for name, own in thirds().items()}
    assert learnt(data) == learnt(thirds())
    (said,) = of_data(caplog)
    assert said == "the index 'patient' of a DataFrame is no column; reset_index() makes it one"


def test_the_name_of_the_site_is_left_out_since_it_varies_at_no_site(caplog):
    named = {name: own.assign(hospital=f"{name}-wing") for name, own in thirds().items()}
    assert learnt(named) == learnt(thirds())
    assert "'hospital' is left out: at every site it holds one value only" in caplog.text


def test_a_column_that_is_constant_at_one_site_is_kept_with_a_warning(caplog):
    data = thirds()
    data["b"] = data["b"].assign(Smoking=data["b"]["Smoking"].iloc[0])
    federation = Federation.simulate(data, device="cpu")
    assert "'Smoking' holds one value only at 'b'; it is kept" in caplog.text
    allowed = [c.name for c in federation.sites[0].table.schema.columns if c.allow_constant]
    assert allowed == ["Smoking"]
    assert "Smoking" in federation.run(FedPC()).finding.graph.nodes


def test_a_word_for_missing_values_is_named_and_stays_a_category(caplog):
    data = thirds(WHOLE.assign(income=["low"] * 700 + ["high"] * 700 + ["NA"] * 100))
    federation = Federation.simulate(data, device="cpu")
    assert "sites 'a', 'b' and 'c', column 'income': 'NA' is a category here" in caplog.text
    assert 'missing = ["NA"]' in caplog.text
    (income,) = (c for c in federation.sites[0].table.schema.columns if c.name == "income")
    assert income.categories == ("NA", "high", "low")


def odd_at_b(change):
    data = thirds(WHOLE.assign(dose=np.linspace(0.0, 1.0, len(WHOLE))))
    return {**data, "b": change(data["b"])}


def with_cell(row, column, cell):
    return lambda own: own.assign(**{column: [*own[column][:row], cell, *own[column][row + 1 :]]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_cell(5, "dose", np.inf), "column 'dose', 500 rows: site 'b': 'inf' in row 6 "),
        (with_cell(5, "dose", "-inf"), "column 'dose', 500 rows: site 'b': '-inf' in row 6 "),
        (with_cell(7, "Smoking", "y\u200bs"), "site 'b': the cell in row 8 "),
        (lambda own: own.iloc[:1], "site 'b': one row is too few"),
        (lambda own: own.assign(z=1), "column 'z', 500 rows: site 'b': site 'a' lacks this column"),
        (lambda own: own.drop(columns="dose"), "site 'b': site 'a' has this column"),
        (lambda own: own.rename(columns={"dose": "Smoking"}), "site 'b': columns "),
        (lambda _: "absent.csv", "absent.csv: site 'b': cannot be read"),
    ],
)
def test_what_is_wrong_at_one_site_names_it_without_a_schema_too(change, said):
    with pytest.raises(DataError) as refused:
        Federation.simulate(odd_at_b(change), device="cpu")
    assert refused.value.site == "b"
    assert said in str(refused.value)


def test_a_table_alone_is_refused_without_a_site_and_with_the_row():
    frame = pd.DataFrame({"x": [0.5, np.inf, 1.5, None], "y": list("abab")})
    with pytest.raises(NotNumericError, match="'inf' in row 2") as refused:
        infer_schema(frame)
    assert refused.value.site is None


@pytest.mark.parametrize("name", ["süd", "", "server", "../x", 1])
def test_a_forbidden_name_of_a_site_is_refused_before_reading(name):
    with pytest.raises(ParameterError, match="cannot name a site") as refused:
        Federation.simulate({name: "absent.csv", "north": "absent.csv"})
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("none", [{}, []])
def test_no_site_at_all_is_refused_as_that(none):
    with pytest.raises(CohortError, match="at least one site"):
        Federation.simulate(none)


def test_a_column_without_a_value_at_one_site_is_said_to_have_none(caplog):
    data = thirds()
    data["b"] = data["b"].assign(Smoking=None)
    Federation.simulate(data, device="cpu")
    assert "'Smoking' holds no value at 'b'; it is kept" in caplog.text
    assert "'Smoking' holds one value only" not in caplog.text


def test_with_a_schema_a_column_without_a_value_may_be_unmeasured():
    data = thirds()
    schema = Federation.simulate(data, device="cpu").sites[0].table.schema
    data["b"] = data["b"].assign(Smoking=None)
    with pytest.raises(ConstantColumnError, match="no value") as found:
        Federation.simulate(data, schema=schema, device="cpu")
    assert "unmeasured_at" in found.value.remedy


def test_with_a_schema_constants_end_the_run_as_before():
    data = thirds()
    schema = Federation.simulate(data, device="cpu").sites[0].table.schema
    data["b"] = data["b"].assign(Smoking=data["b"]["Smoking"].iloc[0])
    with pytest.raises(ConstantColumnError, match="'b'"):
        Federation.simulate(data, schema=schema, device="cpu")


def test_a_split_leaves_out_and_keeps_likewise(caplog):
    rare = WHOLE.assign(country="DE", rare=[1] + [0] * (len(WHOLE) - 1))
    federation = Federation.split(rare, 3, device="cpu")
    assert "country" not in federation.sites[0].table.names
    assert "'rare' holds one value only at" in caplog.text
    assert federation.run(FedPC()).finding.graph.nodes


def test_nothing_is_left_where_nothing_varies():
    for frame in (pd.DataFrame({"u": [1, 1]}), pd.DataFrame({"u": [1, 1], "v": ["x", "x"]})):
        with pytest.raises(ConstantColumnError, match="every column"):
            Federation.simulate({"a": frame, "b": frame}, device="cpu")
    ones, twos = pd.DataFrame({"u": [1, 1]}), pd.DataFrame({"u": [2, 2]})
    with pytest.raises(ConstantColumnError, match="every column"):
        Federation.simulate({"a": ones, "b": twos}, device="cpu")


def test_identifiers_and_dates_still_need_a_schema():
    days = pd.date_range("2001-01-01", periods=len(WHOLE)).astype(str)
    for odd in ([f"p{k}" for k in range(len(WHOLE))], days):
        with pytest.raises(SchemaError, match="odd") as refused:
            Federation.simulate(thirds(WHOLE.assign(odd=odd)), device="cpu")
        assert "schema infer" in refused.value.remedy


def numbers(rng, n=300):
    age = rng.normal(60, 12, n).round(1)
    return pd.DataFrame({"age": age, "pressure": (90 + 0.5 * age + rng.normal(0, 8, n)).round(1)})


def test_another_unit_at_one_site_is_pointed_out(caplog):
    rng = np.random.default_rng(0)
    data = {name: numbers(rng) for name in "abc"}
    Federation.simulate(data, device="cpu")
    assert not caplog.records
    data["b"]["pressure"] *= 10
    Federation.simulate(data, device="cpu")
    record, then = caplog.records
    assert "schema infer" in then.message
    assert record.levelno == logging.WARNING
    assert "column 'pressure': The numbers of 'b' are about 10 times" in record.message


def test_a_code_for_missing_values_is_pointed_out_with_its_site(caplog):
    rng = np.random.default_rng(0)
    data = {name: numbers(rng) for name in "abc"}
    data["c"].loc[:4, "age"] = -999
    Federation.simulate(data, device="cpu")
    assert "site 'c', column 'age': -999 lies apart" in caplog.text
    assert "missing = [-999]" in caplog.text


@pytest.mark.parametrize("one", [WHOLE, "site.csv"])
def test_one_source_is_no_list_of_sources(one):
    with pytest.raises(ParameterError) as caught:
        Federation.simulate(one)
    assert "Federation.split" in caught.value.remedy


def test_sites_of_a_list_are_numbered():
    federation = Federation.simulate([*thirds().values()], device="cpu")
    assert [site.name for site in federation.sites] == ["site-1", "site-2", "site-3"]


def labelled(many=()):
    """A label, features of three values and one of four numbers, and some of many numbers."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"ill": rng.integers(0, 2, 240)})
    frame["grade"] = rng.integers(-1, 2, 240)
    frame["dose"] = rng.choice([-0.5, 0, 0.5, 1.5], 240)
    for name in many:
        frame[name] = rng.normal(size=240).round(3)
    return thirds(frame)


def test_few_numbers_are_categories_beside_labels_and_categories(caplog):
    table = Federation.simulate(labelled(), labels=["ill"], device="cpu").sites[0].table
    assert table.kind == "discrete"
    (dose,) = [own for own in table.schema.variables if own.name == "dose"]
    assert dose.categories == ("-0.5", "0", "0.5", "1.5")
    assert "column 'dose': at most 12 different numbers, which are taken as" in caplog.text


@pytest.mark.parametrize("said", [{"labels": ["ill"]}, {}])
def test_few_numbers_stay_numbers_beside_many_or_without_labels(said, caplog):
    data = labelled(("age",)) if said else labelled()
    table = Federation.simulate(data, **said, device="cpu").sites[0].table
    assert table.kind == "mixed"
    assert "taken as categories" not in caplog.text


def test_what_is_odd_of_many_columns_and_sites_is_said_once(caplog):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {f"c{k:02d}": rng.permutation([-1] * 40 + [0] * 100 + [1] * 100) for k in range(48)}
    )
    Federation.simulate(thirds(frame), device="cpu")
    (line,) = [own.message for own in caplog.records if "lies apart" in own.message]
    assert line.startswith(
        "sites 'a', 'b' and 'c', columns 'c00', 'c01', 'c02' and 45 more: -1 lies apart"
    )


def test_relations_are_looked_for_unless_it_is_said_not_to(caplog):
    frame = WHOLE.assign(copy=WHOLE["Smoking"])
    with_them = Federation.simulate(thirds(frame), device="cpu")
    assert with_them.sites[0].table.schema.relations
    caplog.clear()
    without = Federation.simulate(thirds(frame), relations=False, device="cpu")
    assert not without.sites[0].table.schema.relations
    assert "copy" not in caplog.text
