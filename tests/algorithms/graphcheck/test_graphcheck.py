"""What a graph implies is tested over all sites: a right one stands, a wrong one is named."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from driving import drive
from scipy import stats
from simulating import federated, views_of

from cipherdag import CausalGraph, Federation, FedPC, GraphCheck
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.within_sites import STRATIFIED
from cipherdag.algorithms.graphcheck.algorithm import levels_of
from cipherdag.cli.main import cli
from cipherdag.errors import GraphError, ParameterError
from cipherdag.graphs.networks import asia
from cipherdag.graphs.pag import PAG

CHAIN = CausalGraph.from_edges("abcd", [("a", "b"), ("b", "c"), ("c", "d")])


@cache
def numbers(seed=0, n=1200):
    """A chain of four, with another level at every site."""
    rng = np.random.default_rng(seed)
    found = {}
    for site in range(3):
        a = rng.normal(size=n)
        b = 0.8 * a + rng.normal(size=n)
        c = 0.8 * b + rng.normal(size=n)
        d = 0.8 * c + rng.normal(size=n)
        found[f"site-{site}"] = pd.DataFrame({"a": a, "b": b, "c": c, "d": d}) + 10.0 * site
    return found


def outcome_of(data, graph, **own):
    algorithm, federation = GraphCheck(graph, **own), federated(data)
    names = federation.sites[0].table.names
    facts = Facts(len(names), len(data), names=names)
    outcome, asked = drive(algorithm.ask(facts), views_of(federation))
    return algorithm.conclude(outcome, facts), asked


def partial(rows, x, y, given):
    """Fisher's z within one site, and its weight; by least squares, nothing of the package."""
    X = np.column_stack([np.ones(len(rows)), rows[list(given)].to_numpy()])
    left = [own - X @ np.linalg.lstsq(X, own, rcond=None)[0]
            for own in (rows[x].to_numpy(), rows[y].to_numpy())]  # fmt: skip
    return np.arctanh(np.corrcoef(*left)[0, 1]), len(rows) - len(given) - 3


@pytest.mark.parametrize("other", [PAG(("a", "b"), np.zeros((2, 2), dtype=np.int8)), "a --> b"])
def test_what_is_no_causal_graph_is_refused_by_name(other):
    with pytest.raises(ParameterError, match=f"not {type(other).__name__}") as refused:
        GraphCheck(other)
    assert "DAG or CPDAG" in refused.value.remedy


def test_every_p_value_is_near_that_of_correlations_within_the_sites():
    """Residuals are clipped, and variances those of their products: as normal scores."""
    found, _ = outcome_of(numbers(), CHAIN, reveal="sums")
    assert [(own.first, own.second, own.given) for own in found.tests] == [
        ("a", "c", ("b",)), ("a", "d", ("b",)), ("b", "d", ("c",))
    ]  # fmt: skip
    for own in found.tests:
        told = [partial(rows, own.first, own.second, own.given) for rows in numbers().values()]
        z = sum(score * weight for score, weight in told) / np.sqrt(sum(w for _, w in told))
        assert stats.norm.isf(own.p_value / 2.0) == pytest.approx(abs(z), abs=0.4)
    assert not found.failing


def test_by_bits_a_p_value_is_the_next_level_above():
    wrong = CausalGraph.from_edges("abcd", [("a", "b"), ("c", "d")])
    for graph in (CHAIN, wrong):
        bits, sums = (outcome_of(numbers(), graph, reveal=own)[0] for own in ("bits", "sums"))
        levels = levels_of(0.05)
        for own, exact in zip(bits.tests, sums.tests, strict=True):
            above = [level for level in (1.0, *levels) if level >= exact.p_value]
            assert own.p_value == min(above)
            assert own.fails == exact.fails


def test_a_missing_edge_is_named_first():
    wrong = CausalGraph.from_edges("abcd", [("a", "b"), ("c", "d")])
    found = Federation.simulate(numbers(), device="cpu").run(GraphCheck(wrong, reveal="sums"))
    assert {own.first + own.second for own in found.finding.failing} == {"ac", "ad", "bc", "bd"}
    assert found.finding.failing[0].p_value == min(own.p_value for own in found.finding.tests)
    (said,) = found.report.warnings
    assert said.startswith("4 of 4 independences that the graph implies fail")
    told = "\n".join(found.lines())
    assert "4 fail at 0.05 (holm)" in told
    assert "partial correlation" in told


def test_of_right_graphs_one_in_twenty_is_rejected():
    """By Holm at 0.05 at most; and with differences between sites, which are no dependence."""
    rejected = [bool(outcome_of(numbers(seed, 150), CHAIN)[0].failing) for seed in range(100, 260)]
    assert stats.binomtest(sum(rejected), len(rejected), 0.05, "greater").pvalue > 1e-3


@pytest.mark.parametrize(("reveal", "before"), [("sums", 1), ("bits", 0)])
def test_all_tests_are_asked_at_once_whatever_their_number(reveal, before):
    small, large = CHAIN, asia().graph
    rows = asia().sample(3000, np.random.default_rng(1))
    data = {f"site-{k}": rows[k::3] for k in range(3)}
    # of sums contributors are counted first
    assert len(outcome_of(numbers(), small, reveal=reveal)[1]) == 2 + before
    assert len(outcome_of(data, large, reveal=reveal)[1]) == 2 + before
    by_site = Federation.simulate(data, device="cpu").run(GraphCheck(large, reveal=reveal))
    assert len(by_site.rounds) == 2 + before
    assert len(by_site.finding.tests) == 28 - len(large.edges)


def test_a_graph_over_some_columns_is_tested_over_these():
    part = CausalGraph.from_edges("acd", [("a", "c"), ("c", "d")])
    found, _ = outcome_of(numbers(), part)
    assert [str(own) for own in found.tests] == ["a and d independent given c"]
    assert not found.failing


def test_what_too_few_sites_can_test_is_said_and_counts_for_none():
    rows = asia().sample(900, np.random.default_rng(2))
    data = {f"site-{k}": rows[k::3] for k in range(3)}
    data["site-0"] = data["site-0"].assign(XRay="no")
    found = Federation.simulate(data, device="cpu").run(GraphCheck(asia().graph, reveal="sums"))
    undone = [own for own in found.finding.tests if own.p_value is None]
    assert undone == list(found.finding.undone)
    assert {"XRay"} <= {name for own in undone for name in (own.first, own.second)}
    assert any("could not be tested" in said for said in found.report.warnings)
    assert all(own.adjusted is None and not own.fails for own in undone)
    done = [own for own in found.finding.tests if own.p_value is not None]
    least = min(done, key=lambda own: own.p_value)
    assert least.adjusted == pytest.approx(min(1.0, least.p_value * len(done)))
    assert found.table("independences")["p_value"].isna().sum() == len(undone)


def test_the_share_of_false_alarms_can_be_bounded_instead():
    wrong = CausalGraph.from_edges("abcd", [("a", "b"), ("c", "d")])
    holm, hochberg = (
        outcome_of(numbers(), wrong, correction=own)[0] for own in ("holm", "benjamini-hochberg")
    )
    assert [own.p_value for own in holm.tests] == [own.p_value for own in hochberg.tests]
    pairs = zip(holm.tests, hochberg.tests, strict=True)
    assert all(more.adjusted >= own.adjusted for more, own in pairs)


def test_it_is_saved_shown_and_read_again(tmp_path):
    named = {"a": "<b>a</b>", "b": "b", "c": "c", "d": "d"}
    data = {site: rows.rename(columns=named) for site, rows in numbers().items()}
    wrong = CausalGraph.from_edges(list(named.values()), [("b", "c")])
    found = Federation.simulate(data, device="cpu").run(GraphCheck(wrong))
    found.save(tmp_path / "checked")
    page = (tmp_path / "checked" / "report.html").read_text("utf-8")
    assert "<b>a</b>" not in page
    assert page.count("<strong>fails</strong>") == len(found.finding.failing)
    table = pd.read_csv(tmp_path / "checked" / "independences.csv")
    assert table["fails"].sum() == len(found.finding.failing)
    assert "1 of " not in found._repr_html_()[:10]


@pytest.mark.parametrize(
    ("reveal", "asked"),
    [("sums", {"Columns", "ContributorCounts", "Suppressed"}), ("bits", {"Columns", "RaoBits"})],
)
def test_what_it_opens_is_what_stratified_evidence_opens_of_a_test(reveal, asked):
    opened = STRATIFIED.disclosures(closed=reveal == "bits")
    assert {*opened} <= {*GraphCheck(CHAIN, reveal=reveal).disclosures()}
    _, questions = outcome_of(numbers(), CHAIN, reveal=reveal)
    assert {type(own).__name__ for own in questions} == asked


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (CausalGraph.from_edges("ab", [("a", "b")]), "implies no independence"),
        (CausalGraph.from_edges("abc", [("a", "b"), ("b", "c"), ("c", "a")]), "cycle"),
    ],
)
def test_a_graph_that_implies_nothing_is_refused(graph, said):
    with pytest.raises((ParameterError, GraphError), match=said):
        GraphCheck(graph)


def test_what_is_missing_is_named():
    federation = Federation.simulate(numbers(), device="cpu")
    with pytest.raises(ParameterError, match="--graph"):
        federation.run(GraphCheck())
    other = CausalGraph.from_edges("axyz", [("a", "x")])
    with pytest.raises(ParameterError, match="'x', which is no variable"):
        federation.run(GraphCheck(other))
    with pytest.raises(ParameterError, match="twice"):
        GraphCheck(CHAIN, graph=CHAIN.dumps())
    with pytest.raises(GraphError, match="JSON"):
        GraphCheck(graph="a-->b")


def test_a_file_of_edges_or_a_result_folder_is_tested_by_a_command(tmp_path):
    data = tmp_path / "rows.csv"
    pd.concat(numbers().values()).to_csv(data, index=False)
    edges = tmp_path / "edges.csv"
    edges.write_text("from,to,mark\na,b,-->\nb,c,-->\nc,d,-->\n", "utf-8")
    Federation.simulate(numbers(), device="cpu").run(FedPC()).save(tmp_path / "learnt")
    words = ["simulate", "graphcheck", str(data), "--sites", "3", "--graph"]
    for source in (edges, tmp_path / "learnt"):
        done = CliRunner().invoke(cli, [*words, str(source)], catch_exceptions=False)
        assert done.exit_code == 0
        assert "The graph implies 3 independences" in done.output
    out = tmp_path / "checked"
    CliRunner().invoke(cli, [*words, str(edges), "--out", str(out)], catch_exceptions=False)
    repeated = CliRunner().invoke(cli, ["repeat", str(out)], catch_exceptions=False)
    assert "The graph implies 3 independences" in repeated.output
