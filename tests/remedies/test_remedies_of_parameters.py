"""What an error about an algorithm or its parameters advises is followed, and the error is gone."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from advice import QUOTED, advice, case, evaluated, listed

import cipherdag
from cipherdag import (
    CausalGraph,
    Effect,
    FedBOSS,
    FedCD,
    FedCMFS,
    Federation,
    FedPC,
    GraphCheck,
    RFcd,
    Schema,
    Survival,
)
from cipherdag.algorithms.effect.sets import PossibleSet, read_sets
from cipherdag.algorithms.registry import chosen_algorithm, make_algorithm
from cipherdag.federation.site import split_regimes
from cipherdag.graphs.pag import PAG
from cipherdag.sites.compute.device import resolve_device
from cipherdag.sites.table.column import Column

PYTHON = re.compile(r"(\w+)=(\"[^\"]+\"|[\w.]+)")


def table(rows=300, colours=3):
    rng = np.random.default_rng(0)
    discrete = {name: rng.integers(0, colours, rows).astype(str) for name in ("hue", "shade")}
    return pd.DataFrame({**discrete, "weight": rng.normal(size=rows)})


def run(algorithm, data=None, **more):
    data = table() if data is None else data
    return Federation.split(data, 3, device="cpu", **more).run(algorithm)


def arguments(remedy):
    """The first argument of Python that a remedy names, with its value."""
    name, value = PYTHON.search(remedy).groups()
    return {name: value.strip('"')}


@pytest.mark.follows("Did you mean '{}'?", "Its parameters are {}.")
def test_a_parameter_that_is_meant_or_listed_exists():
    for make in (partial(make_algorithm, "fedpc"), lambda given: FedPC.as_published(**given)):
        assert make({advice(make, {"alpa": 0.01}).split("'")[1]: 0.01})
    (meant,) = QUOTED.findall(advice(FedPC().set_params, alpa=0.1))
    assert FedPC().set_params(**{meant: 0.1}).alpha == 0.1
    names = listed(advice(FedPC().set_params, zzz=1))
    assert {*names} == {*FedPC().get_params()}


@pytest.mark.follows("Take 'auto'", "Use fewer sites, or more rows", "Give every site another")
def test_a_device_sites_and_names_that_are_there_are_taken():
    assert resolve_device(*QUOTED.findall(advice(resolve_device, "cuda:99")))
    rng, dealt = np.random.default_rng(0), {"vertical": False}
    assert advice(split_regimes, np.zeros((5, 2), bool), 3, rng=rng, **dealt)
    assert len(split_regimes(np.zeros((5, 2), bool), 2, rng=rng, **dealt)) == 2
    federation = Federation.split(table(), 3, device="cpu")
    first, *others = federation.sites
    assert advice(replace, federation, sites=(first, first))
    named = replace(first, name="north")
    assert len(replace(federation, sites=(first, named, *others)).sites) == 4


@pytest.mark.follows("Known are {}.", "Installed here are {}.", "Write {}(), with parameters")
def test_an_algorithm_that_is_named_can_be_made():
    for name in listed(advice(chosen_algorithm, "zzz")) + listed(advice(make_algorithm, "z", {})):
        assert chosen_algorithm(name).title
    written = advice(chosen_algorithm, FedPC).removeprefix("Write ").partition(",")[0]
    assert chosen_algorithm(evaluated(written)) == FedPC()


@pytest.mark.follows("Take it as it is: {}()", "Take one of {}")
def test_a_source_that_exists_is_named():
    written = advice(cipherdag.Describe.as_published).partition(": ")[2].rstrip(".")
    assert evaluated(written) == cipherdag.Describe()
    for source in listed(advice(FedPC.as_published, "book"), "one of "):
        assert FedPC.as_published(source)


@pytest.mark.follows("Leave out {}, or --as-published", "in Python as_published({}=...)")
def test_a_contradiction_to_a_publication_is_left_out_and_named(call, tmp_path):
    table().drop(columns="weight").to_csv(tmp_path / "data.csv", index=False)
    command = ["simulate", "fedpc", tmp_path / "data.csv", "--sites", "3", "--device", "cpu"]
    wrong = [*command, "--alpha", "0.2", "--as-published", "paper", "--out", tmp_path / "out"]
    code, _, said = call(*wrong)
    option, other = re.search(r"Leave out (--[a-z-]+), or (--[a-z-]+)", said).groups()
    assert code == 2
    for left in (option, other):
        at = wrong.index(left)
        assert call(*wrong[:at], *wrong[at + 2 :], "--force")[0] == 0
    needed = PYTHON.search(advice(FedCD.as_published))[1]
    assert FedCD.as_published(**{needed: 10})


@pytest.mark.follows("Leave out --min-cell-size, or --as-published.")
def test_small_counts_are_protected_or_the_run_is_as_published(call, tmp_path):
    table().drop(columns="weight").to_csv(tmp_path / "data.csv", index=False)
    command = ["simulate", "fedpc", tmp_path / "data.csv", "--sites", "3", "--device", "cpu"]
    wrong = [*command, "--min-cell-size", "5", "--as-published", "paper", "--out", tmp_path / "o"]
    for left in re.findall(r"--(?:min|as)-[a-z-]+", call(*wrong)[2].partition("do ")[2]):
        at = wrong.index(left)
        assert call(*wrong[:at], *wrong[at + 2 :], "--force")[0] == 0


@pytest.mark.follows(
    "Columns are called {}{}{}", "Write Effect(graph.identify(treatment, outcome))"
)
def test_an_effect_names_variables_or_takes_what_a_graph_says():
    names = listed(advice(run, Effect(treatment="hue", outcome="wait", adjust="shade")), "called ")
    assert names == ["hue", "shade", "weight"]
    assert run(Effect(treatment=names[0], outcome=names[2]), table(900))
    written = re.search(r"Write (Effect\(.*?\)\)), or", advice(Effect, "x"))[1]
    graph = CausalGraph.from_edges(("a", "b", "c"), directed=[("a", "b"), ("c", "a"), ("c", "b")])
    given = {"Effect": Effect, "graph": graph, "treatment": "a", "outcome": "b"}
    assert eval(written, given).adjust == '["c"]'


@pytest.mark.follows("name treatment, outcome and adjust yourself")
def test_an_effect_a_graph_rules_out_is_estimated_by_a_named_set():
    graph = CausalGraph.from_edges(("a", "b"), directed=[("b", "a")])
    words = advice(Effect, graph.identify("a", "b")).split("name ")[1].replace(" and ", ", ")
    named = words.partition(" yourself")[0].split(", ")
    assert Effect(**dict(zip(named, ("a", "b", "c"), strict=True)))


@pytest.mark.follows("where a name has a comma, in JSON")
def test_adjusted_names_stand_with_commas_or_in_json():
    remedy = advice(Effect, treatment="c", outcome="d", adjust='["a"')
    plain, coded = re.search(r"Write (\S+) for .* in JSON: (\S+)\.", remedy).groups()
    assert read_sets(plain) == read_sets(coded) == (PossibleSet(("a", "b")),)


@pytest.mark.parametrize(
    ("algorithm", "data"),
    [
        case((FedPC(evidence="pooled"), table()), "which takes any columns"),
        case(
            (FedPC(evidence="stratified", test="fisherz"), table()),
            'Leave out --test (Python: test="auto")',
        ),
        case(
            (RFcd(score="mdl"), table().drop(columns="weight")), "which takes discrete columns too"
        ),
    ],
)
def test_an_argument_that_is_named_works(algorithm, data):
    remedy = advice(run, algorithm, data)
    assert run(algorithm.set_params(**arguments(remedy)), data)


@pytest.mark.follows("Raise --max-rows")
def test_more_rows_can_be_declared():
    data = table().drop(columns="weight")
    name = re.search(r"Python: (\w+)", advice(run, FedPC(evidence="fisher", max_rows=16), data))[1]
    assert run(FedPC(evidence="fisher", **{name: 512}), data)


@pytest.mark.follows("Cut continuous columns into bins")
def test_mixed_columns_are_cut_or_tested_by_another_algorithm():
    remedy = advice(run, RFcd())
    name = re.search(r"run (\w+) with", remedy)[1]
    assert run(make_algorithm(name, arguments(remedy.partition("with")[2])))


@pytest.mark.follows("or run fedpc, which tests what")
def test_columns_missing_many_values_are_left_out_or_tested_elsewhere():
    data = table()
    data.loc[::2, "hue"] = None
    data.loc[1::2, "shade"] = None
    remedy = advice(run, FedBOSS(), data)
    assert run(re.search(r"run (\w+)", remedy)[1], data)
    assert run(FedBOSS(), data.drop(columns="shade"))


@pytest.mark.follows("name them with --labels")
def test_labels_are_named_or_marked(call, tmp_path):
    data = table(colours=2).drop(columns="weight")
    data.to_csv(tmp_path / "data.csv", index=False)
    command = ["simulate", "fedcmfs", tmp_path / "data.csv", "--sites", "3", "--device", "cpu"]
    code, _, said = call(*command, "--out", tmp_path / "out")
    option, name = re.search(r"(--labels), in Python (\w+)=\[", said).groups()
    assert code == 6
    assert call(*command, option, "hue", "--out", tmp_path / "out")[0] == 0
    assert run(FedCMFS(), data, **{name: ["hue"]})
    call("schema", "infer", tmp_path / "data.csv", "--out", tmp_path / "schema.toml")
    schema = (tmp_path / "schema.toml").read_text("utf-8")
    line = re.search(r"Write (label = true)", said)[1]
    marked = schema.replace("[columns.hue]\n", f"[columns.hue]\n{line}\n")
    assert marked != schema
    (tmp_path / "schema.toml").write_text(marked, "utf-8")
    options = ["--schema", tmp_path / "schema.toml", "--out", tmp_path / "out", "--force"]
    assert call(*command, *options)[0] == 0


@pytest.mark.follows("Give a DAG or CPDAG", "Name the columns of the schema")
def test_a_graph_to_test_is_a_dag_over_the_columns():
    graph = CausalGraph.from_edges(("hue", "shade", "weight"), directed=[("hue", "shade")])
    remedy = advice(GraphCheck, PAG.from_dag(graph, []))
    argument, text = re.search(r"As text: (\w+)=(.*)\.", remedy).groups()
    other = CausalGraph.from_edges(("a", "shade", "weight"), directed=[("a", "shade")])
    assert advice(run, GraphCheck(other)).startswith("Name the columns")
    for given in (graph, graph.to_cpdag()):
        assert run(GraphCheck(given))
        assert run(GraphCheck(**{argument: eval(text, {"graph": given})}))


def wards():
    rng = np.random.default_rng(0)
    months = rng.exponential(9.0, 900).round(2)
    return pd.DataFrame({"died": rng.choice(["no", "yes"], 900), "months": months})


@pytest.mark.follows("Columns are called {}{}{}")
def test_a_column_of_times_that_is_listed_exists():
    names = listed(advice(run, Survival(time="month", event="died"), wards()), "called ")
    assert run(Survival(time=names[1], event=names[0]), wards())


@pytest.mark.follows("Give a schema that names both categories")
@pytest.mark.parametrize("held", ["yes", "no"])
def test_a_named_column_of_one_value_takes_part_by_a_schema(held):
    rows, survival = wards().assign(died=held), Survival(time="months", event="died")
    assert "with allow_constant = true" in advice(run, survival, rows)
    schema = Schema(
        (
            Column("died", "discrete", categories=("no", "yes"), allow_constant=True),
            Column("months", "continuous"),
        )
    )
    curve = Federation.split(rows, 3, schema=schema).run(survival).finding.curves[0]
    assert (sum(curve.events) > 800, curve.high[-1] == 1.0) == (held == "yes", held == "no")
