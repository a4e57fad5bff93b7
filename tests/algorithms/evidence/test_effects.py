"""Sign and size of every edge, from sums already opened: against statsmodels and plain formulas."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from cipherdag import FedBOSS, Federation, FedPC
from cipherdag.algorithms.evidence.effects import mantel_haenszel, per_units
from cipherdag.findings.confidence import Confidences, EdgeConfidence, EdgeCounts
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.sites.policy.policy import Policy

OPEN = Policy(min_cell_size=0)


def numbers(n=1500, seed=3):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    c = 0.4 * a - 0.5 * b + rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": 40.0 - 3 * c + rng.normal(size=n)})


def words(n=3000, seed=4):
    rng = np.random.default_rng(seed)
    s = rng.random(n) < 0.4
    x = rng.random(n) < np.where(s, 0.7, 0.3)
    y = rng.random(n) < np.where(s, 0.6, 0.2) + 0.1 * x
    said = {name: np.where(own, "yes", "no") for name, own in (("s", s), ("x", x), ("y", y))}
    return pd.DataFrame(said)


def run(frame, **choices):
    policy = {} if choices.get("evidence") == "glm" else {"policy": OPEN}
    choices = {"reveal": "sums"} | choices
    return Federation.split(frame, 3, device="cpu", **policy).run(FedPC(**choices))


def partial(frame, x, y, given):
    inverse = np.linalg.inv(np.corrcoef(frame[[x, y, *given]].to_numpy().T))
    r = -inverse[0, 1] / math.sqrt(inverse[0, 0] * inverse[1, 1])
    width = 1.959964 / math.sqrt(len(frame) - len(given) - 3)
    return [r, *(math.tanh(math.atanh(r) + way * width) for way in (-1, 1))]


@pytest.mark.parametrize("kind", ["pooled", "stratified", "glm"])
def test_numbers_have_the_partial_correlation_of_the_named_test(kind):
    frame = numbers()
    result = run(frame, evidence=kind)
    assert len(result.finding.evidence.edges) == 3
    for own in result.finding.evidence.edges:
        expected = partial(frame, own.source, own.target, own.given)
        found = [own.effect.value, own.effect.low, own.effect.high]
        # within the sites, and with constants of their own, not quite that of all rows
        assert found == pytest.approx(expected, abs=1e-6 if kind == "pooled" else 0.01)
        assert own.effect.measure == "partial correlation"
    turned = run(frame.assign(d=-frame["d"]), evidence=kind)
    for own, other in zip(
        result.finding.evidence.edges, turned.finding.evidence.edges, strict=True
    ):
        sign = -1 if "d" in (own.source, own.target) else 1
        assert other.effect.value == pytest.approx(sign * own.effect.value, abs=1e-6)


def strata(frame, x, y, given):
    groups = frame.groupby(list(given)) if given else [((), frame)]
    return [pd.crosstab(own[x], own[y]).to_numpy() for _, own in groups]


def test_categories_have_the_common_odds_ratio_of_the_pooled_tables():
    frame = words()
    for own in run(frame, evidence="pooled").finding.evidence.edges:
        tables = strata(frame, own.source, own.target, own.given)
        known = sm.stats.StratifiedTable([own.astype(float) for own in tables])
        expected = [known.oddsratio_pooled, *known.oddsratio_pooled_confint()]
        assert [own.effect.value, own.effect.low, own.effect.high] == pytest.approx(expected)
        assert own.effect.measure == "odds ratio"


def test_within_the_sites_they_have_the_one_step_odds_ratio():
    frame = words()
    federation = Federation.split(frame, 3, device="cpu", policy=OPEN)
    seen = 0
    for own in federation.run(FedPC(evidence="stratified", reveal="sums")).finding.evidence.edges:
        difference = variance = 0.0
        for site in federation.sites:
            names = list(site.table.names)
            codes = pd.DataFrame(np.asarray(site.table.codes), columns=names)
            for table in strata(codes, own.source, own.target, own.given):
                n, rows, columns = table.sum(), table.sum(axis=1), table.sum(axis=0)
                difference += table[0, 0] - rows[0] * columns[0] / n
                variance += rows.prod() * columns.prod() / (n * n * (n - 1))
        if abs(difference / variance) > math.log(2):
            assert own.effect.value == math.copysign(1, difference)
            assert own.effect.low is own.effect.high is None
            pair = f"{own.source} = yes (against no) and {own.target} = yes (against no)"
            assert str(own.effect) == f"association positive of {pair}"
            continue
        seen += 1
        width = 1.959964 / math.sqrt(variance)
        expected = [math.exp(difference / variance + way * width) for way in (0, -1, 1)]
        found = [own.effect.value, own.effect.low, own.effect.high]
        assert found == pytest.approx(expected, rel=1e-3)
        assert own.effect.measure == "one-step odds ratio"
    assert 0 < seen < 3


def test_mixed_columns_have_the_odds_ratio_of_a_logistic_regression():
    rng = np.random.default_rng(6)
    age = rng.normal(620, 90, 4000)
    ill = rng.random(4000) < 1 / (1 + np.exp(-(age - 620) * 0.004))
    frame = pd.DataFrame({"age": age, "ill": np.where(ill, "yes", "no")})
    (own,) = run(frame, evidence="glm").finding.evidence.edges
    fit = sm.Logit(ill.astype(float), sm.add_constant(age)).fit(disp=0)
    expected = np.exp(100.0 * np.array([fit.params[1], *fit.conf_int()[1]]))
    found = [own.effect.value, own.effect.low, own.effect.high]
    assert found == pytest.approx(expected, rel=1e-3)
    assert own.effect.measure == "odds ratio per 100 units"


@pytest.mark.parametrize(
    "choices",
    [
        {"evidence": "vote"},
        {"evidence": "fisher"},
        {"reveal": "bits", "evidence": "fisher"},
        {"reveal": "bits", "evidence": "stratified"},
    ],
)
def test_where_nothing_opened_tells_a_sign_nothing_is_said(choices):
    for frame in (numbers(), words()):
        result = run(frame, **choices)
        assert len(result.table("edges"))
        assert all(own.effect is None for own in result.finding.evidence.edges)
        assert "association" not in result.table("edges")


def test_more_than_two_categories_have_no_sign():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, 900)
    y = (x + (rng.random(900) < 0.3)) % 3
    frame = pd.DataFrame({"x": x, "y": y}).astype(str)
    for kind in ("pooled", "stratified", "glm"):
        (own,) = run(frame, evidence=kind).finding.evidence.edges
        assert own.effect is None


def test_an_interval_covers_as_often_as_it_says():
    """Of ten pairs of columns in each of thirty runs."""
    covered, true = [], 0.25
    rng = np.random.default_rng(12)
    for _ in range(30):
        x, noise = rng.normal(size=(2, 400, 10))
        y = true * x + math.sqrt(1 - true**2) * noise
        names = [f"{side}{k}" for side in "xy" for k in range(10)]
        frame = pd.DataFrame(np.hstack([x, y]), columns=names)
        evidence = run(frame, evidence="pooled", alpha=0.2, max_cond_size=0).finding.evidence
        own = [evidence.of(f"x{k}", f"y{k}").effect for k in range(10)]
        covered += [effect.low <= true <= effect.high for effect in own]
    low, high = binom.ppf([1e-5, 1 - 1e-5], len(covered), 0.95)
    assert low <= sum(covered) <= high


def test_an_odds_ratio_without_bounds_is_not_given():
    assert mantel_haenszel(np.array([[[5.0, 0.0], [0.0, 5.0]]])) is None
    assert mantel_haenszel(np.array([[[5.0, 1.0], [2.0, 5.0]], [[0.0, 0.0], [0.0, 0.0]]])).value > 1


def test_a_graph_by_scores_has_the_correlation_given_the_other_causes():
    frame = numbers()
    pooled = FedBOSS(within_sites=False)
    result = Federation.split(frame, 3, device="cpu").run(pooled)
    assert len(result.finding.evidence.edges) == 3
    for own in result.finding.evidence.edges:
        expected, *_ = partial(frame, own.source, own.target, own.given)
        assert own.effect.value == pytest.approx(expected, abs=1e-5)
        # the search chose the edge by the same rows, so that no interval holds
        assert own.effect.low is own.effect.high is None
    assert list(result.table("edges")["given"]) == [
        "; ".join(own.given) for own in result.finding.evidence.edges
    ]


@pytest.mark.parametrize("algorithm", [FedPC, FedBOSS])
def test_what_was_known_before_is_marked(algorithm):
    known = Knowledge(required=(("a", "b"),), tiers=(("c",), ("d",)))
    result = Federation.split(numbers(), 3, device="cpu").run(algorithm(knowledge=known))
    marks = {(own.source, own.target): own.known for own in result.finding.evidence.edges}
    assert marks["a", "b"] == "edge"
    assert marks["c", "d"] == "direction"
    assert set(marks.values()) <= {"edge", "direction", ""}
    assert list(result.table("edges")["known"]) == [*marks.values()]
    assert "known" not in Federation.split(numbers(), 3, device="cpu").run(algorithm()).table(
        "edges"
    )


MATRICES = st.lists(
    st.lists(st.sampled_from(["-->", "<--", "---", ""]), min_size=3, max_size=3),
    min_size=1,
    max_size=8,
)


@given(MATRICES, st.floats(0.05, 1.0))
def test_the_consensus_has_the_marks_that_enough_replicates_have(drawn, threshold):
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    graphs = []
    for marks in drawn:
        edges = [
            (b, a, "-->") if mark == "<--" else (a, b, mark)
            for (a, b), mark in zip(pairs, marks, strict=True)
            if mark
        ]
        graphs.append(CausalGraph.from_marked("abc", edges))
    counts = EdgeCounts.of([own.endpoints for own in graphs], "---")
    found = Confidences(counts.details("abc")).consensus(graphs[0], threshold)
    least, expected = threshold * len(drawn), []
    for k, (a, b) in enumerate(pairs):
        column = [marks[k] for marks in drawn]
        if len(drawn) - column.count("") < least:
            continue
        there, back = column.count("-->") >= least, column.count("<--") >= least
        if there == back:
            expected.append((a, b, "---"))
        else:
            expected.append((a, b, "-->") if there else (b, a, "-->"))
    # a cycle that enough replicates have, each an arrow of it, has no direction
    assert found == CausalGraph.from_marked("abc", expected).without_cycles()
    assert found.is_acyclic


def test_an_arrow_of_one_replicate_in_twenty_is_none_of_the_consensus():
    assert EdgeConfidence(20, {"-->": 1}).consensus(0.5) == ""
    assert EdgeConfidence(20, {"-->": 1, "---": 19}).consensus(0.5) == "---"
    assert EdgeConfidence(20, {"-->": 1, "<--": 15}).consensus(0.5) == "<--"
    assert EdgeConfidence(20, {"-->": 10, "<--": 10}).consensus(0.5) == "---"


def test_an_odds_ratio_is_per_so_many_units_that_it_can_be_read():
    """Body mass in grams: per gram it was "1 (1 to 1)" at p 2.8e-6."""
    told = per_units(0.0012, 0.0002)
    assert told.measure == "odds ratio per 100 units"
    assert told.value == pytest.approx(np.exp(0.12))
    assert 1.05 < told.low < told.value < told.high
    assert per_units(0.4, 0.1).measure == "odds ratio per unit"
    assert per_units(-2e-7, 1e-8).measure == "odds ratio per 1,000,000 units"
    assert per_units(0.0, 0.0) is None
