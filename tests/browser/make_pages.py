"""Writes one page of every kind, from real runs, for `check_pages.js` to open in a browser."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from cipherdag import (
    CausalGraph,
    Describe,
    Effect,
    FedBOSS,
    FedCD,
    FedCMFS,
    Federation,
    FedFCI,
    FedPC,
    GraphCheck,
    RFcd,
    Survival,
    Training,
)
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.audit.ledger_page import ledger_page
from cipherdag.findings.axes import Curves, Series
from cipherdag.findings.panels import HeatMap, TablePanel
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.graphs.networks import asia
from cipherdag.results.compared_page import compared_page
from cipherdag.sites.record.ledger import read_releases, verify_ledger

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title></svg>",
    "&lt;b&gt; & ]]> -->",
    "javascript:alert(1)//",
    "年龄",
    "v" * 300,
)


def graph_run(protection="masking"):
    data = asia().sample(6000, np.random.default_rng(1))
    federation = Federation.split(data, 3, seed=1, protection=protection)
    return federation.run(FedPC(evidence="vote"), source={"command": "simulate"})


def feature_run():
    rng = np.random.default_rng(0)
    causes = rng.standard_normal((2000, 6))
    first = causes[:, :3].sum(axis=1) + rng.standard_normal(2000)
    second = causes[:, 2:5].sum(axis=1) + 0.5 * first + rng.standard_normal(2000)
    table = pd.DataFrame(causes, columns=["age", "bmi", "dose", "iron", "salt", "zinc"])
    table = table.assign(relapse=first, survival=second)
    return Federation.split(table, 3, labels=("relapse", "survival"), seed=1).run(FedCMFS())


def regret_run():
    """Worst-case regret of sites that hold a few rows each of a network."""
    data = asia().sample(900, np.random.default_rng(1))
    return Federation.split(data, 3, seed=1).run(
        RFcd(objective="nodewise", searching=Searching(beam=2))
    )


def belief_run():
    """Beliefs from experiments at three sites: a dose, an enzyme, pain, sleep."""
    rng = np.random.default_rng(4)
    names = ("dose", "enzyme", "pain", "sleep")

    def draw(count, target):
        levels = np.zeros((count, 4), dtype=int)
        for j, name in enumerate(names):
            follows = levels[:, j - 1] if j else rng.choice(3, count, p=[0.5, 0.3, 0.2])
            levels[:, j] = (follows + rng.choice(3, count, p=[0.85, 0.15, 0.0])) % 3
            if name == target:
                levels[:, j] = rng.integers(0, 3, count)
        return pd.DataFrame(levels, columns=list(names)).assign(experiment=target)

    table = pd.concat([draw(300, ""), *(draw(60, name) for name in names)], ignore_index=True)
    sites = Federation.split(table, 3, interventions="experiment", deal="vertical", seed=1)
    small = Training(epochs=1, fit_steps=60, graph_steps=30, batch=32, graphs=20, hidden=8)
    return sites.run(FedCD(rounds=4, training=small), seed=1)


def description_run():
    """Columns of patients, of which some values are missing and one category is rare."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(60.0, 11.0, 1500).round(),
            "crp": np.where(rng.random(1500) < 0.1, np.nan, rng.lognormal(1.0, 0.8, 1500)),
            "stage": rng.choice(["I", "II", "III", "IV"], 1500, p=[0.6, 0.3, 0.09, 0.01]),
        }
    )
    return Federation.split(table, 3, seed=1).run(Describe())


def survival_run():
    """Two groups of three hospitals, and ratios of hazards."""
    rng = np.random.default_rng(2)
    arm, age = rng.integers(0, 2, 1500), rng.normal(60.0, 10.0, 1500).round()
    months = rng.exponential(10.0 * np.exp(0.5 * arm - 0.03 * (age - 60.0)))
    lost = rng.uniform(2.0, 40.0, 1500)
    table = pd.DataFrame(
        {
            "age": age,
            "arm": np.where(arm == 1, "new", "old"),
            "died": np.where(months <= lost, "yes", "no"),
            "months": np.minimum(months, lost),
        }
    )
    own = Survival(time="months", event="died", by="arm", adjust=("arm", "age"))
    return Federation.split(table, 3, seed=1).run(own)


def effect_run():
    """An effect that the graph leaves open: one of four, two of them none."""
    rng = np.random.default_rng(2)
    age = rng.normal(60, 10, 900)
    drug = rng.random(900) < 1 / (1 + np.exp(-(age - 60) / 10))
    ill = rng.random(900) < 1 / (1 + np.exp(drug - (age - 60) / 20))
    table = pd.DataFrame({"age": age, "drug": drug, "ill": np.where(ill, "yes", "no")})
    pairs = [("age", "drug"), ("age", "ill"), ("drug", "ill")]
    drawn = CausalGraph.from_edges(list(table.columns), undirected=pairs)
    query = drawn.identify("drug", "ill")
    return Federation.split(table, 3, seed=1).run(Effect(query, refute=True))


def checked_run():
    """A graph that lacks an edge, and a column that hardly varies."""
    rows = asia().sample(900, np.random.default_rng(1))
    drawn = asia().graph.directed[1:]
    graph = CausalGraph.from_edges(asia().graph.nodes, drawn)
    return Federation.split(rows, 3, seed=1).run(GraphCheck(graph))


def hidden_run():
    """Two instruments, and a pair of columns that share a cause which is not measured."""
    rng = np.random.default_rng(3)
    hidden, first, second = rng.standard_normal((3, 1500))
    table = pd.DataFrame({"first": first, "second": second})
    table["left"] = first + hidden + rng.standard_normal(1500)
    table["right"] = second + hidden + rng.standard_normal(1500)
    return Federation.split(table, 3, seed=1).run(FedFCI())


def panels(names):
    """One panel of every kind; the numbers are made up, and the page is a test of pages."""
    rng = np.random.default_rng(2)
    rounds = range(1, 25)
    falling = tuple((float(k), float(np.exp(-k / 6) + rng.random() / 20)) for k in rounds)
    other = tuple((k, 0.8 * value + 0.1) for k, value in falling)
    beliefs = rng.random((len(names), len(names))).round(3)
    return (
        Curves(
            title="Test curve",
            note="Two made-up curves.",
            x_label="round",
            y_label="test value",
            series=(Series("first", falling), Series("second", other)),
        ),
        HeatMap(
            title="Test matrix",
            note="A made-up matrix.",
            rows=names,
            columns=names,
            values=tuple(
                tuple(None if i == j else float(beliefs[i, j]) for j in range(len(names)))
                for i in range(len(names))
            ),
        ),
        TablePanel(
            title="Test table", note="Made-up rows.", columns=("a", "b"), rows=(("x", 1.5),)
        ),
    )


def score_run():
    """Scores of numbers, with what is known before: no replicates."""
    rng = np.random.default_rng(7)
    age, dose = rng.standard_normal((2, 1500))
    pressure = 0.6 * age - 0.5 * dose + rng.standard_normal(1500)
    table = pd.DataFrame({"age": age, "dose": dose, "pressure": pressure})
    table["risk"] = 0.7 * pressure + 0.2 * age + rng.standard_normal(1500)
    known = Knowledge(required=(("age", "pressure"),), tiers=(("age", "dose"), ("risk",)))
    return Federation.split(table, 3, seed=1).run(FedBOSS(knowledge=known))


def replicated_run(seed=1):
    """Tests with replicates, tiers, and so few rows that some edges are doubtful."""
    data = asia().sample(900, np.random.default_rng(seed))
    known = Knowledge(tiers=(("Smoking",), ("Bronchitis", "LungCancer")))
    return Federation.split(data, 3, seed=1).run(FedPC(bootstrap=20, knowledge=known), seed=1)


def large(result, n=223):
    rng = np.random.default_rng(3)
    order = np.triu(rng.random((n, n)) < 2.4 / n, k=1)
    graph = CausalGraph.from_arcs([f"gene{i}" for i in range(n)], order)
    names = {name: str(k) for k, name in enumerate(graph.nodes, start=1)}
    finding = replace(result.finding, graph=graph, dag=graph, evidence=GraphEvidence())
    return replace(result, finding=finding, identifiers=names)


def pages():
    """Name and text of every page."""
    result = graph_run()
    truth = asia().graph
    names = dict(zip(result.finding.graph.nodes, HOSTILE, strict=True))
    attacked = replace(
        result,
        finding=replace(
            result.finding,
            graph=result.finding.graph.relabel(names),
            dag=result.finding.dag.relabel(names),
            evidence=GraphEvidence(),
        ),
        identifiers={names[name]: own for name, own in result.identifiers.items()},
    )
    lines = result.ledgers[result.sites[0]]
    yield "fedpc", result.page(truth=truth)
    yield "fedcmfs", feature_run().page()
    yield "describe", description_run().page()
    yield "survival", survival_run().page()
    yield "effect", effect_run().page()
    yield "graphcheck", checked_run().page()
    yield "fedfci", hidden_run().page()
    yield "fedboss", score_run().page()
    replicated = replicated_run()
    yield "consensus", replicated.page()
    yield "compared", compared_page(result, replicated, ("june", "july"))
    yield "rfcd", regret_run().page(truth=truth)
    yield "fedcd", belief_run().page()
    yield "panels", result.page(panels=panels(result.finding.graph.nodes))
    yield "large", large(result).page()
    yield "hostile", attacked.page(panels=panels(HOSTILE))
    yield "clear", graph_run("none").page()
    yield "connected", replace(result, ledgers={}).page()
    yield "ledger", ledger_page(read_releases(lines), verify_ledger(lines), pinned=True)
    yield "empty-ledger", ledger_page([], verify_ledger([]), pinned=True)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (out / f"{name}.html").write_text(text, encoding="utf-8")
