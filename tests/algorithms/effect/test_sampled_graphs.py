"""An effect over graphs that fit: how many have it, its sets, and its interval given that it is."""

import math

import msgspec
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cipherdag import Effect, FedBOSS, Federation, Run
from cipherdag.algorithms.effect.sets import read_sets, sampled_sets
from cipherdag.errors import ParameterError
from cipherdag.findings.averaging import averaged, with_scatter
from cipherdag.findings.effect import BetweenSites, Contrast
from cipherdag.graphs.graph_sample import GraphSample

NAMES = tuple("abcde")


def sample(*counted):
    """Graphs over `NAMES`, each as edges such as "ab bc", as often as its number says."""
    graphs = []
    for count, edges in counted:
        arcs = np.zeros((5, 5), bool)
        for u, v in edges.split():
            arcs[NAMES.index(u), NAMES.index(v)] = True
        graphs += [arcs] * count
    return GraphSample(NAMES, np.array(graphs))


def difference(estimate, error):
    low, high = (estimate + sign * 1.96 * error for sign in (-1, 1))
    return Contrast(
        arm=None, scale="difference", estimate=estimate, error=error, low=low, high=high
    )


def test_rare_sets_count_with_the_nearest_frequent_one():
    graphs = sample((60, "ca ab"), (38, "ca da ab"), (1, "ca da ea ab"), (1, "ba"))
    sets = read_sets(sampled_sets(graphs, "a", "b"))
    assert [(one.adjust, one.share) for one in sets] == [
        (("c",), 0.6),
        (("c", "d"), 0.39),
        ((), pytest.approx(0.01)),
    ]
    assert sets[-1].why == "no effect"


def test_an_effect_in_hardly_any_graph_is_refused():
    graphs = sample((97, "ba"), (3, "ab"))
    with pytest.raises(ParameterError, match="in 3 of 100 graphs"):
        sampled_sets(graphs, "a", "b")
    with pytest.raises(ParameterError, match="no variable 'x'"):
        sampled_sets(graphs, "x", "b")


def test_intervals_are_those_of_a_mixture_of_normals():
    shares, parts = (0.3, 0.1), [difference(1.0, 0.1), difference(2.0, 0.3)]
    mixed = averaged(shares, parts)
    assert mixed.estimate == pytest.approx(1.25)
    drawn = np.concatenate(
        [stats.norm(1.0, 0.1).rvs(300_000, 1), stats.norm(2.0, 0.3).rvs(100_000, 2)]
    )
    assert mixed.error == pytest.approx(drawn.std(), rel=0.01)
    assert (mixed.low, mixed.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.01)


def test_one_set_has_its_interval_and_scatter_widens_it():
    alone = difference(1.0, 0.1)
    assert averaged((0.7,), [alone]).high == pytest.approx(alone.high, abs=1e-4)
    quiet = BetweenSites(arm=None, sites=3, estimate=1.0, error=0.1, q=0.1)
    wild = BetweenSites(arm=None, sites=3, estimate=1.0, error=0.1, q=8.0)
    assert with_scatter(alone, quiet) == alone
    expected = 0.1 * 2.0 * stats.t.ppf(0.975, 2) / stats.norm.ppf(0.975)
    assert with_scatter(alone, wild).error == pytest.approx(expected)


@pytest.fixture(scope="module")
def federation():
    rng = np.random.default_rng(3)
    weights = np.triu(rng.random((5, 5)) < 0.5, 1) * rng.uniform(0.3, 0.7, (5, 5))
    rows = rng.normal(size=(450, 5)) @ np.linalg.inv(np.eye(5) - weights)
    return Federation.split(pd.DataFrame(rows, columns=list(NAMES)), 3)


def test_result_report_and_effect_tell_the_same_shares(federation, tmp_path):
    result = federation.run(FedBOSS(), seed=1)
    graphs = result.finding.sample
    assert len(graphs) == 500
    causes = result.table("causes")
    assert len(causes) == 20
    shares = {(row["from"], row["to"]): row["share"] for _, row in causes.iterrows()}
    x, y = max(shares, key=lambda pair: shares[pair] if shares[pair] < 0.995 else 0)
    result.save(tmp_path / "graph")
    again = Run.load(tmp_path / "graph")
    assert again.table("causes").equals(causes)
    assert again.table("edges").equals(result.table("edges"))
    assert "What causes what" in (tmp_path / "graph" / "report.html").read_text("utf-8")
    assert "of graphs, with" in str(result)

    effect = federation.run(Effect(treatment=x, outcome=y, graphs=again.finding.sample))
    assert effect.finding.share_with_effect == pytest.approx(shares[x, y])
    low, high = effect.finding.interval
    assert low < effect.finding.estimate < high
    assert "of graphs that fit the data" in str(effect)
    effect.save(tmp_path / "effect")
    saved = Run.load(tmp_path / "effect").finding
    assert saved.interval == (low, high)


def test_sites_with_too_few_rows_say_that_no_graphs_are_drawn():
    rng = np.random.default_rng(5)
    few = pd.DataFrame(rng.normal(size=(60, 60)), columns=[f"v{k}" for k in range(60)])
    result = Federation.split(few, 4).run(FedBOSS())
    assert result.finding.sample is None
    assert any("How many graphs fit" in limit for limit in result.report.limits)


def test_decisions_do_not_depend_on_the_sample(federation):
    result = federation.run(FedBOSS(), seed=1)
    assert "sample" in result.finding.details
    assert b"sample" not in result.finding.decisions
    assert msgspec.json.decode(result.finding.decisions)
    assert math.isfinite(result.finding.details["score"])
