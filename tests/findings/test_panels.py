"""Panels: what the algorithms' details make, the numbers they show, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_run import TRUTH, altered, asia_run, page_of

from cipherdag import FedPC, RFcd
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedcd.report import belief_evidence
from cipherdag.algorithms.rfcd.algorithm import RFcdOutcome, Searching
from cipherdag.errors import ParameterError
from cipherdag.findings.axes import Curves, Estimate, Forest, Series
from cipherdag.findings.panels import HeatMap, TablePanel
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.graph import CausalGraph


@pytest.fixture(scope="module")
def result():
    return asia_run()


def as_run_by(result, algorithm, details, **parameters):
    """A result as another algorithm gives it: a DAG, and details in the form of result.json."""
    (a, b), *rest = TRUTH.directed
    dag = CausalGraph.from_edges(TRUTH.nodes, [(b, a), *rest[:-1]])  # one turned, one missing
    assert dag.to_cpdag() != dag
    return altered(
        result,
        algorithm=algorithm,
        parameters=parameters,
        graph=dag,
        dag=dag,
        evidence=GraphEvidence(),
        details=details,
        made_by=None,
    )


def test_a_regret_curve_is_shown(result):
    outcome = RFcdOutcome(
        dag=result.finding.dag.arcs,
        arcs=result.finding.graph.arcs,
        regret=0.5,
        curve=(12.25, 3.125, 0.5),
        grid=2**-10,
        candidates=321,
    )
    algorithm = RFcd(objective="nodewise", searching=Searching(beam=3))
    found = algorithm.conclude(outcome, Facts(8, 3, names=result.finding.dag.nodes))
    page = page_of(as_run_by(result, "rfcd", found.details, objective="nodewise", beam=3))
    assert "RFcd over 3 sites" in page.texts["h1"]
    numbers = [own["value"] for tag, own in page.elements if tag == "data"]
    assert {"12.25", "3.125", "0.5"} <= set(numbers)


def test_beliefs_are_strengths_and_a_matrix(result):
    names = result.finding.dag.nodes
    rng = np.random.default_rng(0)
    belief = {a: {b: float(rng.random()) for b in names} for a in names}
    belief[names[0]][names[1]] = 1.0 + 2**-40  # fixed-point sums may round like this
    details = {
        "belief": belief,
        "cut": [{"from": names[0], "to": names[1], "belief": 0.625}],
        "edge_entropy": [0.5, 0.25],
    }
    run = as_run_by(result, "fedcd", details, aggregation="proximity")
    evidence = belief_evidence(belief, run.finding.graph)
    run = altered(run, evidence=evidence)
    page = page_of(run, truth=TRUTH)
    edges = run.finding.graph.edges
    assert page.column("edge-table", "Strength", values=True) == [
        [str(belief[edge.source][edge.target])] for edge in edges
    ]
    numbers = {own["value"] for tag, own in page.elements if tag == "data"}
    assert "0.625" in numbers
    assert {str(belief[a][b]) for a in names for b in names if a != b} <= numbers
    # a DAG that tells more than its CPDAG is held against the true DAG
    verdicts = page.column("edge-table", "Truth")
    metrics = run.finding.metrics(TRUTH)
    assert (metrics.reverse, metrics.miss, metrics.extra) == (1, 1, 0)
    assert verdicts.count("as in the truth") == metrics.correct == len(edges) - 1


def test_a_run_says_of_what_was_declared_what_was_asked_for(result):
    loaded = replace(result, made_by=None)
    said = loaded.disclosures
    assert said
    assert {each.quantity for each in FedPC(evidence="glm", reveal="sums").disclosures()} > {
        each.quantity for each in FedPC().disclosures() if each.precision != "one bit each"
    }
    unknown = replace(loaded, algorithm="own").disclosures
    assert len(" ".join(unknown)) >= len(" ".join(said))


def test_panels_show_their_numbers(result):
    curves = Curves(
        title="Regret",
        note="Worst regret over sites.",
        x_label="round",
        y_label="regret",
        series=(
            Series("best", ((1.0, 12.5), (2.0, 7.25), (3.0, 0.125))),
            Series("next", ((1.0, 14.0), (3.0, 1e-9))),
        ),
    )
    beliefs = HeatMap(
        title="Beliefs",
        note="Belief in every edge.",
        rows=("a", "b"),
        columns=("a", "b"),
        values=((None, 0.75), (0.25, None)),
    )
    rows = TablePanel(
        title="Beam", note="Last beam.", columns=("graph", "regret"), rows=(("g1", 3.5),)
    )
    page = page_of(result, panels=(curves, beliefs, rows))
    numbers = [own["value"] for tag, own in page.elements if tag == "data"]
    assert {"12.5", "7.25", "0.125", "14.0", "1e-09", "0.75", "0.25", "3.5"} <= set(numbers)
    courses = [o for t, o in page.elements if t == "path" and o["class"].startswith("curve ")]
    assert len(courses) == 4  # two curves and their two signs
    cells = [own for _, own in page.elements if own.get("class") == "heat-cell"]
    assert [own["fill-opacity"] for own in cells] == ["0.75", "0.25"]
    assert {"#panel-1", "#panel-2", "#panel-3"} <= set(page.links)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(-1e12, 1e12, allow_nan=False)), min_size=1)
)
def test_curves_stay_in_their_frame(points):
    curves = Curves(
        title="t",
        note="n",
        x_label="x",
        y_label="y",
        series=(Series("s", tuple((float(x), y) for x, y in points)),),
    )
    left, top, right, bottom = curves.frame
    for x, y, first, second in curves.dots(curves.series[0]):
        assert left - 0.1 <= x <= right + 0.1
        assert top - 0.1 <= y <= bottom + 0.1
        assert (first, second) in [(float(a), b) for a, b in points]
    assert all(tick.value.is_integer() for tick in curves.x_ticks)
    for ticks in (curves.x_ticks, curves.y_ticks):
        assert len(ticks) <= 7
        assert [tick.value for tick in ticks] == sorted({tick.value for tick in ticks})


@given(
    st.lists(st.tuples(*[st.floats(1e-9, 1e9)] * 3).map(sorted), min_size=1, max_size=20),
    st.booleans(),
    st.sampled_from([1.0, -1.0]),
)
def test_lines_of_a_forest_lie_in_its_frame_in_their_order(ends, ratios, sign):
    sign = 1.0 if ratios else sign
    lines = [sorted(sign * end for end in own) for own in ends]
    forest = Forest(
        title="t",
        note="n",
        label="l",
        ratios=ratios,
        estimates=tuple(Estimate("a name", own[1], own[0], own[2]) for own in lines),
    )
    places = [
        (forest.position(own.low), forest.position(own.value), forest.position(own.high))
        for _, own in forest.lines()
    ]
    assert all(forest.left <= low <= middle <= high <= forest.right for low, middle, high in places)
    assert forest.left <= forest.no_effect <= forest.right
    ticks = [tick.position for tick in forest.ticks]
    assert ticks == sorted(ticks)
    assert all(forest.left - 0.1 <= place <= forest.right + 0.1 for place in ticks)
    assert forest.bottom < forest.height


def test_a_forest_says_each_number_with_its_interval(result):
    estimates = (Estimate("old", 2.0, 1.5, 3.0), Estimate("young", 0.5, 0.25, 0.75))
    forest = Forest(title="Arms", note="", label="odds ratio", ratios=True, estimates=estimates)
    text = result.page(panels=(forest,))
    assert "2 (1.5 to 3)" in text
    assert "0.5 (0.25 to 0.75)" in text
    assert [tick.value for tick in forest.ticks] == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Forest(title="t", note="", label="", estimates=()),
        lambda: Forest(title="t", note="", label="", estimates=(Estimate("a", 1.0, 2.0, 3.0),)),
        lambda: Forest(title="t", note="", label="", estimates=(Estimate("a", 1.0, 0.0, np.inf),)),
        lambda: Forest(
            title="t", note="", label="", ratios=True, estimates=(Estimate("a", 1.0, 0.0, 2.0),)
        ),
        lambda: Curves(title="t", note="", x_label="", y_label="", series=()),
        lambda: Curves(
            title="t", note="", x_label="", y_label="", series=(Series("s", ((0.0, np.nan),)),)
        ),
        lambda: HeatMap(title="t", note="", rows=("a",), columns=("b",), values=((2.0,),)),
        lambda: HeatMap(title="t", note="", rows=("a",), columns=("b",), values=()),
        lambda: TablePanel(title="t", note="", columns=("a", "b"), rows=(("x",),)),
    ],
)
def test_panels_that_make_no_sense_are_refused(make):
    with pytest.raises(ParameterError):
        make()
