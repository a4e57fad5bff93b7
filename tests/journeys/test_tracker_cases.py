"""Small inputs in the spirit of reports to other projects, each with the right graph or answer.

Every test names the report whose kind of fault it is about; the data are drawn here.
"""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from cipherdag import (
    CausalGraph,
    FedBOSS,
    Federation,
    FedFCI,
    FedPC,
    Knowledge,
    Policy,
    Schema,
)
from cipherdag.graphs.networks import asia
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.sites.table.column import Column

ALLOW = Policy(questions=QUESTION_KINDS)
graph = CausalGraph.from_edges


def learnt(data, algorithm, *, seed=1, schema=None):
    federation = Federation.split(data, 3, seed=seed, policy=ALLOW, schema=schema, device="cpu")
    return federation.run(algorithm, seed=0)


def marks(result):
    return {f"{own.source} {own.mark} {own.target}" for own in result.finding.graph.edges}


# py-why/causal-learn#224: forbidding X - Z both ways made a collider of the chain X - Y - Z


def chain_of(kind):
    rng, n = np.random.default_rng(0), 3000
    if kind == "categories":
        a = rng.integers(0, 3, n)
        b = np.where(rng.random(n) < 0.6, a, rng.integers(0, 3, n))
        c = np.where(rng.random(n) < 0.6, b, rng.integers(0, 3, n))
        return pd.DataFrame(
            {k: np.array(list("abc"))[v] for k, v in zip("XYZ", (a, b, c), strict=True)}
        )
    x = rng.normal(size=n)
    if kind == "numbers":
        y = x + rng.normal(size=n)
        return pd.DataFrame({"X": x, "Y": y, "Z": y + rng.normal(size=n)})
    y = np.where(x + rng.logistic(size=n) > 0, "yes", "no")
    return pd.DataFrame({"X": x, "Y": y, "Z": (y == "yes") * 1.5 + rng.normal(size=n)})


@pytest.mark.parametrize("kind", ["numbers", "categories", "mixture"])
def test_a_pair_forbidden_both_ways_makes_no_collider(kind):
    known = Knowledge(forbidden=(("X", "Z"), ("Z", "X")))
    data = chain_of(kind)
    plain = FedPC(alpha=0.001)  # X and Z given Y have p .008 in this draw
    for own in (FedPC(knowledge=known), FedPC(knowledge=known, reveal="bits"), plain):
        assert marks(learnt(data, own)) == {"X --- Y", "Y --- Z"}
    hidden = FedFCI(knowledge=known, alpha=0.001)
    assert marks(learnt(data, hidden)) == {"X o-o Y", "Y o-o Z"}


# pgmpy/pgmpy#1004: a column that is the sum of three others


@pytest.mark.parametrize("own", [FedPC(), FedPC(reveal="bits")])
def test_a_sum_of_categories_is_the_effect_of_its_terms(own):
    data = pd.DataFrame(np.random.default_rng(0).integers(0, 5, (2500, 3)), columns=list("XYZ"))
    data["sum"] = data.sum(axis=1)
    assert marks(learnt(data, own)) == {"X --> sum", "Y --> sum", "Z --> sum"}


# py-why/causal-learn#110: a variable without an edge


def test_a_variable_without_an_edge_is_kept_through_files(tmp_path):
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(3, 3000))
    data = pd.DataFrame({"X0": x, "X1": y, "X2": x + y + rng.normal(size=3000), "alone": z})
    result = learnt(data, FedPC())
    assert marks(result) == {"X0 --> X2", "X1 --> X2"}
    again = type(result).load(result.save(tmp_path / "out"))
    assert again.finding.graph == result.finding.graph
    assert again.finding.graph.kind == "cpdag"
    assert "alone" in again.finding.graph.nodes
    assert set(nx.read_graphml(tmp_path / "out" / "graph.graphml")) == set(data.columns)


# pgmpy#3487, pgmpy#2200, bnstruct#22: knowledge, right or wrong, is obeyed by graph and DAG


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["default", "lenient", "votes", "boss", "fci"])
def test_knowledge_is_obeyed_in_graph_and_dag(name, seed):
    rng = np.random.default_rng(seed)
    data = asia().sample(1500, rng)
    names = list(rng.permutation(list(data.columns)))
    early, late = names[:4], names[4:]
    known = Knowledge(
        tiers=(tuple(early), tuple(late)),
        forbidden=((names[0], names[6]),),
        required=((names[1], names[5]),),
    )
    own = {
        "default": FedPC(knowledge=known),
        "lenient": FedPC(knowledge=known, alpha=0.2),
        "votes": FedPC(knowledge=known, evidence="vote"),
        "boss": FedBOSS(knowledge=known),
        "fci": FedFCI(knowledge=known),
    }[name]
    result = learnt(data, own, seed=seed)
    for found in (result.finding.graph, *([] if name == "fci" else [result.finding.dag])):
        arrows = {(e.source, e.target) for e in found.edges if e.mark == "-->"}
        assert not {(a, b) for a, b in arrows if a in late and b in early}
        assert (names[0], names[6]) not in arrows
        assert (names[1], names[5]) in arrows
    if name != "fci":
        assert result.finding.graph.kind in ("cpdag", "mpdag")
        assert not (result.finding.dag.arcs & ~result.finding.graph.arcs).any()


# causal-learn#138, tetrad#1246, causal-cmd#106, tigramite#85: values missing at random


@pytest.mark.parametrize("kind", ["numbers", "categories", "one common category"])
def test_a_chain_is_found_where_three_values_in_ten_are_missing(kind):
    rng, n = np.random.default_rng(0), 3000
    if kind == "numbers":
        values = np.cumsum(rng.normal(size=(n, 4)), axis=1)
        data = pd.DataFrame(values, columns=list("abcd"))
    else:
        shares = [0.9, 0.05, 0.05] if kind == "one common category" else None
        columns = [rng.choice(3, n, p=shares)]
        for _ in range(3):
            again = rng.choice(3, n, p=shares)
            columns.append(np.where(rng.random(n) < 0.75, columns[-1], again))
        data = pd.DataFrame(
            {k: np.array(list("xyz"))[v] for k, v in zip("abcd", columns, strict=True)}
        )
    data = data.mask(rng.random((n, 4)) < 0.3)
    for own in (FedPC(), FedPC(reveal="sums"), FedPC(evidence="vote"), FedBOSS()):
        assert marks(learnt(data, own)) == {"a --- b", "b --- c", "c --- d"}
    assert marks(learnt(data, FedFCI())) == {"a o-o b", "b o-o c", "c o-o d"}


@pytest.mark.parametrize("rows", [(10, 10, 10), (10, 10, 10, 10, 10, 40), (10,) * 9 + (12,)])
def test_sites_of_fewer_rows_than_a_small_count_are_tested(rows):
    """Their sums are as large as any: one category separates all rows but one of each site."""
    data = {}
    for number, n in enumerate(rows):
        one = np.arange(n) < n // 2
        data[f"s{number}"] = pd.DataFrame({"a": one, "b": one ^ (np.arange(n) == 0)}).astype(str)
    federation = Federation.simulate(data, policy=ALLOW, device="cpu")
    assert marks(federation.run(FedPC(), seed=0)) == {"a --- b"}


# tetrad#1215: FCI of numbers and categories together took hours


def test_fci_of_a_mixture_finds_the_true_edges():
    rng, n, p = np.random.default_rng(0), 3000, 8
    values, columns, true = np.zeros((n, p)), {}, set()
    for j in range(p):
        own = rng.normal(size=n)
        for i in range(j):
            if rng.random() < 2.0 / p:
                own += rng.uniform(0.5, 0.9) * values[:, i]
                true.add((f"v{i}", f"v{j}"))
        if j % 2:
            cut = np.digitize(own / own.std(), [-0.5, 0.5])
            values[:, j] = (cut - cut.mean()) / cut.std()
            columns[f"v{j}"] = [f"k{v}" for v in cut]
        else:
            values[:, j] = columns[f"v{j}"] = own / own.std()
    result = learnt(pd.DataFrame(columns), FedFCI())
    assert {(e.source, e.target) for e in result.finding.graph.edges} | {
        (e.target, e.source) for e in result.finding.graph.edges
    } == true | {(b, a) for a, b in true}
    wrong = {(e.target, e.source) for e in result.finding.graph.edges if e.mark == "-->"} & true
    assert wrong == set()
    assert result.finding.graph.kind == "pag"


# causal-learn#67: columns of very many categories are tested, or named


@pytest.mark.parametrize("reveal", ["sums", "bits"])
def test_columns_of_many_categories_are_tested_or_named(reveal):
    rng, n = np.random.default_rng(0), 3000
    data = pd.DataFrame({f"z{k}": rng.choice(list("abc"), n) for k in range(2)})
    many = [f"p{v}" for v in range(300)]
    for name in ("postcode", "doctor"):
        data[name] = rng.choice(many, n)
    schema = Schema(
        tuple(
            Column(own, "discrete", categories=tuple(sorted(set(data[own]) | (
                set(many) if own in ("postcode", "doctor") else set()
            ))), allow_constant=True)
            for own in data
        )
    )  # fmt: skip
    result = learnt(data, FedPC(reveal=reveal), schema=schema)
    said = " ".join(result.report.warnings)
    for own in result.finding.evidence.edges:
        assert own.status in ("undone", "untested")
        assert own.source in said
        assert own.target in said
        assert own.p_value is None


@pytest.mark.parametrize("reveal", ["bits", "sums"])
def test_columns_of_thirty_and_forty_categories_are_tested(reveal):
    rng, n = np.random.default_rng(4), 1500
    code, other = rng.integers(0, 40, n), rng.integers(0, 30, n)
    after = np.where(rng.random(n) < 0.5, code % 30, rng.integers(0, 30, n))
    rows = pd.DataFrame({"code": code, "other": other, "after": after}).astype(str)
    rows = rows.map("c{}".format)
    found = learnt(rows, FedPC(reveal=reveal))
    # scores within the sites need no rows of every cell
    (only,) = found.finding.evidence.edges
    assert ({only.source, only.target}, only.status) == ({"code", "after"}, "tested")
    assert found.report.warnings == ()
