"""What is said of sites' data before a run in one process, and what is left out of it."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import ConstantColumnError, ParameterError, SchemaError
from cipherdag.federation.simulated import Federation
from cipherdag.graphs.networks import asia

WHOLE = asia().sample(1500, np.random.default_rng(3))


def thirds(frame=WHOLE):
    return {name: frame.iloc[k::3].reset_index(drop=True) for k, name in enumerate("abc")}


def learnt(data, **options):
    return Federation.simulate(data, device="cpu", **options).run(FedPC()).graph


def test_a_column_that_is_constant_everywhere_is_left_out_with_a_warning(caplog):
    plain = learnt(thirds())
    assert not caplog.records
    assert learnt(thirds(WHOLE.assign(country="DE"))) == plain
    assert "'country' is left out: it holds one value only, or none" in caplog.text


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
    assert "Smoking" in federation.run(FedPC()).graph.nodes


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
    assert federation.run(FedPC()).graph.nodes


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
