"""FedCMFS from files and DataFrames to a result by name."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from labelled_runs import ALGORITHM, LABELS, TABLES, continuous_table, discrete_table

from cipherdag import FedCMFS, Federation, Policy, Schema
from cipherdag.errors import ConstantColumnError, MixedTypesError, SchemaError
from cipherdag.results.folder import verify_folder
from cipherdag.sites.drafts.inference import infer_schema


def names(result, label):
    return [own.feature for own in result.finding.features[label]]


@pytest.mark.parametrize("reveal", ["sums", "bits"])
def test_the_causes_and_effects_of_each_label_are_found_by_name(reveal):
    table, labels = TABLES["discrete"]
    algorithm = replace(ALGORITHM, reveal=reveal)
    result = Federation.split(table, 3, labels=labels, device="cpu").run(algorithm)
    assert set(names(result, "bronchitis")) == {"smoke", "cough"}
    assert set(names(result, "asthma")) == {"pollen"}
    assert result.finding.related_labels == {"asthma": ("bronchitis",), "bronchitis": ("asthma",)}
    chosen = [own for label in LABELS for own in result.finding.features[label]]
    if reveal == "sums":
        strengths = [own.strength for own in result.finding.features["bronchitis"]]
        assert strengths == sorted(strengths, reverse=True)
    else:
        assert {(own.strength, own.p_value) for own in chosen} == {(None, None)}
    assert result.finding.union == ("cough", "pollen", "smoke")
    frame = result.table("features")
    assert frame.columns.tolist() == "label rank feature strength p_value retrieved".split()
    assert frame["label"].tolist() == ["asthma", "bronchitis", "bronchitis"]
    assert frame["rank"].tolist() == [1, 1, 2]
    assert result.finding.untested == ()


@pytest.mark.parametrize("test", ["auto", "regression"])
def test_labels_of_two_values_and_continuous_features_go_together(test):
    table = continuous_table()
    table["one"] = (table["one"] > 0).astype(int)
    algorithm = FedCMFS(k1=100, k2=100, test=test)
    result = Federation.split(table, 3, labels=("one",), device="cpu").run(algorithm)
    assert {"a", "effect"} <= set(names(result, "one"))
    assert "zodiac" not in names(result, "one")
    words = np.array(["red", "green", "blue"])[np.arange(len(table)) % 3]
    frame = table.drop(columns="effect").assign(colour=words)
    federation = Federation.split(frame, 3, labels=("one",), device="cpu")
    if test == "regression":
        assert "a" in names(federation.run(algorithm), "one")
        return
    with pytest.raises(MixedTypesError):
        federation.run(algorithm)


def test_no_label_is_named():
    table, _ = TABLES["discrete"]
    with pytest.raises(SchemaError, match="label"):
        Federation.split(table, 3, device="cpu").run(ALGORITHM)
    with pytest.raises(SchemaError, match="no variable") as refused:
        Federation.split(table, 3, labels=("asthma", "gout"), device="cpu")
    assert refused.value.column == "gout"


def constant_at(site, column, table, *, n_sites=3):
    """Sites of one table, at one or all of which a column holds one value."""
    parts = {f"site{k}": table.iloc[k::n_sites].copy() for k in range(n_sites)}
    for name in parts if site == "all" else [site]:
        parts[name][column] = 1
    return parts


def allowing(columns):
    """The schema of the discrete table, where these columns may be constant at a site."""
    text = infer_schema(discrete_table()).with_labels(LABELS).dumps()
    for column in columns:
        text = text.replace(f"[columns.{column}]", f"[columns.{column}]\nallow_constant = true")
    return Schema.loads(text)


def test_a_constant_label_or_feature_is_named(caplog):
    table, labels = TABLES["discrete"]
    parts = constant_at("site1", "asthma", table)
    with pytest.raises(ConstantColumnError) as refused:
        Federation.simulate(parts, schema=allowing(()), device="cpu")
    assert refused.value.column == "asthma"
    assert refused.value.site == "site1"
    # a split only shows at the run
    table = pd.concat([discrete_table(40), discrete_table(40)]).reset_index(drop=True)
    table["asthma"] = [1] + [0] * 79
    with pytest.raises(ConstantColumnError) as refused:
        Federation.split(
            table, 3, schema=infer_schema(table, min_cell_size=0), labels=labels, device="cpu"
        ).run(ALGORITHM)
    assert refused.value.column == "asthma"
    # who wrote no schema is told, and keeps the run
    assert not caplog.records
    assert Federation.split(table, 3, labels=labels, device="cpu").run(ALGORITHM)
    assert "'asthma' holds one value only at 'site-1', 'site-3'" in caplog.text
    parts = constant_at("all", "zodiac", discrete_table())
    one_site = Federation.simulate(
        {k: v.assign(zodiac=[0, *v["zodiac"][1:]]) for k, v in parts.items()},
        schema=allowing(()),
        device="cpu",
    )
    rows = np.arange(1, 300)
    sites = tuple(
        type(site)(site.name, site.table.take(rows), site.policy) for site in one_site.sites
    )
    with pytest.raises(ConstantColumnError, match="every site") as refused:
        Federation(sites=sites, device="cpu").run(ALGORITHM)
    assert refused.value.column == "zodiac"


def test_a_constant_column_the_schema_allows_weighs_nothing():
    table = discrete_table(3600)
    schema = allowing(("asthma", "zodiac"))
    parts = constant_at("site1", "asthma", table, n_sites=4)
    result = Federation.simulate(parts, schema=schema, device="cpu").run(ALGORITHM)
    assert names(result, "asthma") == ["pollen"]
    alone = {k: v for k, v in parts.items() if k != "site1"}
    without = Federation.simulate(alone, schema=schema, device="cpu").run(ALGORITHM)
    assert result.finding.features["asthma"] == without.finding.features["asthma"]
    everywhere = constant_at("all", "zodiac", table)
    result = Federation.simulate(everywhere, schema=schema, device="cpu").run(ALGORITHM)
    assert result.finding.untested == ("zodiac",)


def test_a_test_of_fewer_sites_than_a_sum_must_cover_is_not_opened():
    """Of three sites one has no asthma: the sum of the other two would say what each has."""
    table = discrete_table(2700)
    parts = constant_at("site1", "asthma", table)
    schema = allowing(("asthma",))
    sums = replace(ALGORITHM, reveal="sums")
    result = Federation.simulate(parts, schema=schema, device="cpu").run(sums)
    assert names(result, "asthma") == []
    assert set(names(result, "bronchitis")) == {"smoke", "cough"}
    lax = Policy(min_sites=2, tolerated_colluders=0, reveal="sums")
    result = Federation.simulate(parts, schema=schema, device="cpu", policy=lax).run(sums)
    assert names(result, "asthma") == ["pollen"]
    # where bits alone are opened, two sites are enough
    result = Federation.simulate(parts, schema=schema, device="cpu").run(ALGORITHM)
    assert names(result, "asthma") == ["pollen"]


@pytest.fixture
def table_file(tmp_path):
    file = tmp_path / "clinic.csv"
    discrete_table().to_csv(file, index=False)
    return file


def test_simulate_writes_a_whole_folder_that_verifies_and_repeats(call, table_file, tmp_path):
    out, again = tmp_path / "out", tmp_path / "again"
    arguments = ("simulate", "fedcmfs", table_file, "--labels", "asthma,bronchitis")
    code, text, _ = call(*arguments, "--sites", 3, "--out", out, "--k1", 50, "--k2", 100)
    assert code == 0
    assert "bronchitis: cough, smoke" in text
    assert "9 tests of pairs, combined by weighted_p" in text
    assert "Disclosed: bits" in text
    report = json.loads((out / "result.json").read_text("utf-8"))
    assert report["parameters"]["k1"] == 50
    assert set(report["union"]) == {"cough", "pollen", "smoke"}
    frame = pd.read_csv(out / "features.csv")
    assert frame["feature"].tolist() == ["pollen", "cough", "smoke"]
    assert len(verify_folder(out)) == 3
    assert call("audit", "verify", out)[0] == 0
    assert call("repeat", out, "--out", again)[0] == 0
    assert (again / "features.csv").read_text("utf-8") == (out / "features.csv").read_text("utf-8")
    code, _, error = call("graph", "show", out)
    assert code == 1
    assert "features.csv" in error


def test_run_takes_one_file_per_site_and_labels_from_the_schema(call, tmp_path):
    table = discrete_table()
    files = [tmp_path / f"clinic{k}.csv" for k in range(3)]
    for k, file in enumerate(files):
        table.iloc[k::3].to_csv(file, index=False)
    schema = tmp_path / "schema.toml"
    schema.write_text(infer_schema(table).with_labels(LABELS).dumps(), "utf-8")
    code, text, _ = call("run", "fedcmfs", *files, "--schema", schema, "--json")
    assert code == 0
    last = json.loads(text.splitlines()[-1])["result"]
    assert last["sites"] == ["clinic0", "clinic1", "clinic2"]
    assert set(last["features"]) == set(LABELS)


@pytest.mark.parametrize(
    ("arguments", "expected", "text"),
    [
        ((), 6, "label"),
        (("--labels", "asthma,gout"), 6, "gout"),
        (("--labels", "asthma", "--k1", "101"), 2, "k1"),
        (("--labels", "asthma", "--k2", "-3"), 2, "k2"),
        (("--labels", "asthma", "--alpha", "0"), 2, "alpha"),
        (("--labels", "asthma", "--test", "fisherz"), 6, "discrete"),
        (("--labels", "asthma", "--sites", "2", "--reveal", "sums"), 3, "2 sites"),
    ],
)
def test_what_is_wrong_is_named(call, table_file, arguments, expected, text):
    code, _, error = call("simulate", "fedcmfs", table_file, *arguments)
    assert code == expected
    assert text in error
