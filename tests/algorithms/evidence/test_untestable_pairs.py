"""Pairs of which nothing is tested lose their edge, and a run says so."""

import numpy as np
import pandas as pd
import pytest

from cipherdag import Federation, FedFCI, FedPC
from cipherdag.algorithms.constraint_based.outcome import removed_untested
from cipherdag.algorithms.constraint_based.report import (
    REMOVED_DETAIL,
    untested_details,
    untested_warnings,
)
from cipherdag.algorithms.evidence.options import Method
from cipherdag.graphs.knowledge import Constraints, Knowledge


def sites_of(*, silent: float | None, discrete: bool = False) -> dict[str, pd.DataFrame]:
    """Three sites of a -> b -> c, the last of which has one value of b, or none."""
    sites = {}
    for number in range(3):
        rng = np.random.default_rng(number)
        a = rng.normal(size=300)
        b = 0.7 * a + rng.normal(size=300)
        c = 0.7 * b + rng.normal(size=300)
        own = pd.DataFrame({"a": a, "b": b, "c": c})
        if discrete:
            own = own.gt(0).replace({True: "yes", False: "no"}).astype(object)
        if number == 2 and silent is not None:
            own["b"] = np.nan if np.isnan(silent) else ("no" if discrete else silent)
        sites[f"s{number}"] = own
    return sites


WAYS = [("stratified", "sums"), ("fisher", "sums")]


@pytest.mark.parametrize(("evidence", "reveal"), WAYS)
@pytest.mark.parametrize("silent", [np.nan, 0.0])
def test_untested_edges_are_told(evidence, reveal, silent, caplog, tmp_path):
    federation = Federation.simulate(sites_of(silent=silent))
    result = federation.run(FedPC(evidence=evidence, reveal=reveal), seed=0)
    assert [{e.source, e.target} for e in result.finding.graph.edges] == [{"a", "c"}]
    assert result.finding.details["tests"][Method.CONSTANT] == 2
    assert sum(result.finding.details["tests"].values()) == 3
    assert result.table("separations")["support"].isna().all()
    assert set(result.table("separations")["given"]) == {""}
    assert "Too few sites could test a and b; b and c: at the others b does" in caplog.text
    assert result.finding.details[REMOVED_DETAIL]["variables"] == ["b"]
    folder = result.save(tmp_path / "result")
    assert "not tested" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("evidence", ["stratified", "fisher", "weighted_p"])
def test_by_bits_the_sites_that_can_test_a_pair_decide(evidence, caplog):
    """No number of them is needed, as none of their sums is opened."""
    federation = Federation.simulate(sites_of(silent=np.nan))
    result = federation.run(FedPC(evidence=evidence, reveal="bits"), seed=0)
    assert [{e.source, e.target} for e in result.finding.graph.edges] == [{"a", "b"}, {"b", "c"}]
    assert Method.CONSTANT not in result.finding.details["tests"]
    assert "Too few sites could test" not in caplog.text


@pytest.mark.parametrize("discrete", [False, True])
def test_fci_tells_edges_that_fall_untested(discrete, caplog):
    federation = Federation.simulate(sites_of(silent=np.nan, discrete=discrete))
    result = federation.run(FedFCI(reveal="sums"), seed=0)
    assert [{e.source, e.target} for e in result.finding.graph.edges] == [{"a", "c"}]
    assert result.finding.details["tests"][Method.CONSTANT] == 2
    assert [own.support for own in result.finding.evidence.separations] == [None, None]
    assert "Too few sites could test a and b; b and c: at the others b does" in caplog.text


@pytest.mark.parametrize("evidence", ["stratified", "fisher", "pooled"])
def test_what_falls_to_tests_has_support_and_no_warning(evidence, caplog):
    federation = Federation.simulate(sites_of(silent=None))
    result = federation.run(FedPC(evidence=evidence, reveal="sums"), seed=0)
    assert result.table("separations")["support"].between(0.01, 1.0).all()
    assert REMOVED_DETAIL not in result.finding.details
    assert Method.CONSTANT not in result.finding.details["tests"]
    assert "Too few sites could test" not in caplog.text


def test_incomplete_numbers_of_pooled_moments_are_told(caplog):
    federation = Federation.simulate(sites_of(silent=np.nan))
    result = federation.run(FedPC(evidence="pooled"), seed=0)
    assert result.finding.details["tests"] == {
        "pooled": 1,
        "incomplete: within sites": 0,
        Method.CONSTANT: 2,
    }
    assert "Too few sites could test a and b; b and c: at the others b does" in caplog.text


def test_pairs_known_to_have_no_edge_were_not_to_be_tested(caplog):
    known = Knowledge(forbidden=(("a", "b"), ("b", "a")))
    federation = Federation.simulate(sites_of(silent=np.nan))
    result = federation.run(FedPC(knowledge=known, reveal="sums"), seed=0)
    assert result.finding.details[REMOVED_DETAIL]["shown"] == [["b", "c"]]
    assert "Too few sites could test b and c: at the others b does" in caplog.text


def test_of_many_pairs_the_variables_are_named():
    names = [f"v{i:02}" for i in range(40)]
    pairs = np.array([(min(v, 7), max(v, 7)) for v in range(40) if v != 7])
    removed = removed_untested(pairs, Constraints.none(40))
    details = untested_details(None, removed, names)
    assert details[REMOVED_DETAIL]["pairs"] == 39
    assert details[REMOVED_DETAIL]["variables"] == ["v07"]
    (said,) = untested_warnings(details)
    assert said.startswith("Too few sites could test 39 pairs with v07: at the others v07 does not")
    assert removed_untested(pairs[:0], Constraints.none(40)) is None
