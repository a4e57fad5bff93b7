"""Every edge says what it stands on, in all places alike; tests that were not done say nothing."""

import csv
import json
import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import Federation, FedFCI, FedPC, Knowledge
from cipherdag.algorithms.constraint_based.pair_tests import (
    TOO_FEW_ROWS,
    TOO_FEW_SITES,
    DecisiveTests,
)
from cipherdag.algorithms.constraint_based.report import skipped_fact
from cipherdag.findings.edge_table import WHAT_HELPS, undone_warnings, why
from cipherdag.findings.graph_finding import LEAVE_OUT, what_helps
from cipherdag.graphs.edge_evidence import FOLLOWS, EdgeEvidence, TestsOfEdge
from cipherdag.graphs.networks import asia
from cipherdag.questions.presence import EVERYWHERE, Measured

NUMBERS = ("p_value", "strength", "confidence", "any_edge", "association")
RUNS = {
    "bootstrap": FedPC(evidence="fisher", bootstrap=3),
    "fisher": FedPC(evidence="fisher"),
    "pooled": FedPC(evidence="pooled"),
    "votes": FedPC(evidence="vote"),
    "fci": FedFCI(evidence="fisher"),
}


def unrelated():
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.choice(list("xyz"), 40) for name in "abcd"})


def clinics(**parameters):
    """The first tutorial: at one of three hospitals nothing tells of X-rays given TubOrCancer."""
    patients = asia().sample(6000, np.random.default_rng(1))
    sites = {"north": patients[:2500], "south": patients[2500:4000], "west": patients[4000:]}
    return Federation.simulate(sites).run(FedPC(**parameters), seed=0)


@pytest.mark.parametrize("name", RUNS)
def test_edges_that_nothing_was_tested_of_have_no_numbers_anywhere(name, tmp_path):
    result = Federation.split(unrelated(), 3, seed=1).run(RUNS[name], seed=0)
    assert len(result.finding.graph.edges) == 6
    assert {own.status for own in result.finding.evidence.edges} == {"untested"}
    if name in ("fisher", "bootstrap"):
        tests = result.finding.details["tests"]
        assert sum(n for way, n in tests.items() if not way.endswith("none")) == 0
        assert sum(tests.values()) == 24
    assert set(result.table("edges")["status"]) == {"untested"}
    for column in {*NUMBERS} & {*result.table("edges").columns}:
        assert result.table("edges")[column].isna().all()
    first = result.report.warnings[0]
    assert "could not be done" in first
    assert "may do them" in first
    assert "6 edges of 6" in result.report.warnings[1]
    assert result.lines()[1] == f"WARNING: {first}"
    assert all("may be connected" in line for line in result.finding.edge_lines)
    shown = "\n".join(result.lines())
    assert not any(word in shown for word in ("strength 1", "100%", " p "))
    assert shown.count("may be connected") >= 6
    folder = result.save(tmp_path / "out")
    rows = list(csv.DictReader((folder / "edges.csv").read_text("utf-8").splitlines()))
    assert all(row["status"] == "untested" and row["why"] for row in rows)
    assert not any(row.get(column) for row in rows for column in NUMBERS)
    saved = json.loads((folder / "result.json").read_text("utf-8"))
    assert saved["warnings"][0] == first
    assert all("p_value" not in own for own in saved["evidence"]["edges"])
    page = (folder / "report.html").read_text("utf-8")
    assert "6 edges of 6" in page
    assert 'data-sure="' not in page.split('id="edge-table"')[1].split("</table>")[0]


@pytest.mark.parametrize("own", [FedPC(), FedPC(reveal="sums"), FedFCI()])
def test_scores_are_tested_where_no_site_has_a_test_of_its_own(own):
    """Thirteen rows a site are enough for scores within the sites, which need no cells."""
    result = Federation.split(unrelated(), 3, seed=1).run(own, seed=0)
    assert result.finding.evidence.edges == ()
    assert result.finding.details["tests"]["within sites"] >= 6
    assert not any("could not be done" in said for said in result.report.warnings)


@pytest.mark.parametrize("replicates", [0, 4])
def test_an_edge_whose_test_was_not_done_has_no_p_value_and_no_share(replicates):
    result = clinics(bootstrap=replicates, reveal="sums")
    own = result.finding.evidence.of("LungCancer", "XRay")
    assert own.status == "undone"
    assert own.p_value is None
    assert own.effect is None
    assert own.shown == ""
    assert own.tests.given == ("TubOrCancer",)
    assert own.tests.why == TOO_FEW_SITES
    assert "LungCancer and XRay" in " ".join(result.report.warnings)
    row = result.table("edges").set_index(["from", "to"]).loc[own.source, own.target]
    assert row["why"] == why(own)
    if replicates:
        assert math.isnan(row["confidence"])
        assert math.isnan(row["any_edge"])
    tested = result.finding.evidence.of("Bronchitis", "Dyspnoea")
    assert tested.status == "tested"
    assert tested.p_value is not None


def test_the_first_tutorial_has_no_wrong_arrow_and_leads_to_an_effect():
    result = clinics()
    truth = asia().graph
    wrong = {(b, a) for a, b in truth.directed} & set(result.finding.graph.directed)
    assert wrong == set()
    assert "What to adjust for" in result.page()
    assert "Smoking" in str(result.finding.graph.identify("Bronchitis", "Dyspnoea"))


def test_what_was_known_before_is_required_and_not_tested():
    rng = np.random.default_rng(2)
    data = pd.DataFrame(rng.normal(size=(600, 3)), columns=list("abc"))
    known = Knowledge(required=(("a", "b"),))
    result = Federation.split(data, 3).run(FedPC(knowledge=known), seed=0)
    own = result.finding.evidence.of("a", "b")
    assert (own.status, own.tests, own.p_value) == ("required", None, None)
    assert why(own) == "required by background knowledge"
    assert result.report.warnings == ()


def test_votes_that_were_not_taken_are_of_no_single_test():
    own = TestsOfEdge(3, 1, given=None, why="too few sites could test it")
    edge = EdgeEvidence("a", "b", 0.0, "", status=own.status, tests=own)
    assert why(edge) == (
        "may be connected; 1 of 3 votes that could separate them was not done "
        "(too few sites could test it)"
    )
    assert "given" not in skipped_fact(own)
    (said,) = undone_warnings([edge, *[evidence(10, 0)] * 2], 0)
    assert "because a vote that" in said


def evidence(asked, undone):
    tests = TestsOfEdge(asked, undone, ("s",), "rows are too few")
    return EdgeEvidence("a", "b", 0.0, "", status=tests.status, tests=tests)


@pytest.mark.parametrize(
    ("edges", "fallen", "first"),
    [
        ([evidence(10, 0)], 0, None),
        ([evidence(10, 1), evidence(10, 0)], 0, "1 edge of 2"),  # a twentieth
        ([evidence(10, 2), evidence(8, 0)], 0, "2 of 18 tests"),
        ([evidence(9, 0)], 2, "2 of 11 tests"),
        ([], 3, "3 of 3 tests"),
    ],
)
def test_more_than_a_tenth_of_the_decisive_tests_is_the_first_to_say(edges, fallen, first):
    said = undone_warnings(edges, fallen)
    assert (said == ()) if first is None else said[0].startswith(first)


class Undone:
    """A source that left the tests with variable 3 undone for want of sites."""

    def skipped_tests(self, triplets):
        return triplets[:, 2] == 3


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=40))
def test_decisive_tests_are_counted_as_plain_loops_do(told):
    pairs = list(combinations(range(4), 2))
    decisive = DecisiveTests(4)
    decisive.on_result(np.array(pairs), np.zeros(len(pairs)))
    undone_sets = {pair: set() for pair in pairs}
    sets = {pair: {()} for pair in pairs}
    for k, member, undone in told:
        x, y = pairs[k]
        s = member + 4 if undone else member + 10  # one set is done or not, whoever asks
        sets[x, y].add((s,))
        undone_sets[x, y].update({(s,)} if undone else ())
        row = [y, x, s] if s % 2 else [x, y, s]
        decisive.on_result(np.array([row]), np.array([math.nan if undone else 0.0]))
    plain = {pair: [len(sets[pair]), len(undone_sets[pair])] for pair in pairs}
    skeleton = ~np.eye(4, dtype=bool)
    skeleton[0, 1] = skeleton[1, 0] = False
    joined = np.zeros_like(skeleton)
    joined[2, 3] = joined[3, 2] = True
    found = decisive.of(skeleton, joined, Undone(), EVERYWHERE)
    assert set(found) == set(pairs) - {(0, 1), (2, 3)}
    for pair, tests in found.items():
        assert [tests.asked, tests.undone] == plain[pair]
        assert tests.status == ("undone" if tests.undone else "tested")


def test_why_a_test_was_not_done_is_told():
    skeleton, none = ~np.eye(4, dtype=bool), np.zeros((4, 4), dtype=bool)
    decisive = DecisiveTests(4)
    rows = np.array([[0, 1, 3], [0, 2, 1]])
    decisive.on_result(rows, np.full(2, math.nan))
    found = decisive.of(skeleton, none, Undone(), EVERYWHERE)
    assert (found[0, 1].why, found[0, 2].why) == (TOO_FEW_SITES, TOO_FEW_ROWS)
    lacking = Measured(((0,), (1,)))
    told = decisive.of(skeleton, none, Undone(), lacking)
    assert (told[0, 1].status, told[0, 1].why) == ("untested", "no site measured both")
    assert told[0, 2].status == "tested"  # with 1 it is no test of the plan's


def stands_for_want_of(*reasons):
    edges = []
    for why_not in reasons:
        tests = TestsOfEdge(5, 2, ("s",), why_not)
        edges.append(EdgeEvidence("x", "y", 0.0, "", status=tests.status, tests=tests))
    return what_helps(edges)


def test_what_helps_depends_on_why_tests_were_not_done():
    """No rows can do a test given that from which a column is computed."""
    assert stands_for_want_of(FOLLOWS) == LEAVE_OUT
    assert stands_for_want_of(TOO_FEW_ROWS) == WHAT_HELPS
    assert stands_for_want_of(FOLLOWS, TOO_FEW_ROWS) == f"{LEAVE_OUT} {WHAT_HELPS}"
