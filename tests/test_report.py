"""The report of a run: well formed, offline, safe with any name, and every number the result's."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime

import adversary
import numpy as np
import pytest
from driving import drive, respondent
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleTest, random_dag
from pages import Page
from test_fedcmfs_runs import LABELS, discrete_table

from cipherdag import FedCMFS, Federation, FedPC
from cipherdag.algorithms.graphs import CausalGraph
from cipherdag.errors import ParameterError
from cipherdag.fedpc_evidence import fedpc_evidence
from cipherdag.graph_evidence import EdgeEvidence, GraphEvidence, Separation
from cipherdag.networks import asia
from cipherdag.protocol.reports import DropOut
from cipherdag.report.curves import Curves, Series
from cipherdag.report.heat_map import HeatMap
from cipherdag.report.rows import Rows
from cipherdag.report.run_page import run_page

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title></svg>{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; & ]]> --> \\u003c",
    "javascript:alert(1)//",
    "年龄 و \u202e x",
    "v" * 300,
)
TRUTH = asia().graph


@pytest.fixture(scope="module")
def result():
    """A real run of three sites over the eight variables of ASIA."""
    data = asia().sample(3000, np.random.default_rng(5))
    return Federation.split(data, 3, seed=2).run(FedPC(), seed=4, source={"command": "simulate"})


@pytest.fixture(scope="module")
def selection():
    """A real run of FedCMFS."""
    table = discrete_table()
    return Federation.split(table, 3, labels=LABELS, seed=1).run(FedCMFS())


def page_of(result, **options):
    page = Page(run_page(result, **options))
    page.check_offline()
    return page


def test_every_number_of_a_graph_report_is_the_results(result):
    page = page_of(result, truth=TRUTH, written=datetime(2026, 5, 4, 3, 2, tzinfo=UTC))
    edges = result.graph.edges
    assert page.column("edge-table", "From") == [edge.source for edge in edges]
    assert page.column("edge-table", "To") == [edge.target for edge in edges]
    arrows = {"-->": "→", "---": "—"}
    assert page.column("edge-table", "Mark") == [arrows[edge.mark] for edge in edges]
    known = [result.evidence.of(edge.source, edge.target) for edge in edges]
    assert page.column("edge-table", "Strength", values=True) == [[str(e.strength)] for e in known]
    assert page.column("edge-table", "Strength") == [edge.shown for edge in known]
    assert page.column("round-table", "Bytes", values=True) == [
        [str(max(report.bytes_sent_per_site.values()))] for report in result.rounds
    ]
    for heading, field in (("Round", "number"), ("Values", "values")):
        assert page.column("round-table", heading, values=True) == [
            [str(getattr(report, field))] for report in result.rounds
        ]
    sent = [[str(result.bytes_sent_per_site[site])] for site in result.sites]
    assert page.column("site-table", "Sent", values=True) == sent
    records = [[str(result.heads[site].records)] for site in result.sites]
    assert page.column("site-table", "Ledger records", values=True) == records
    assert page.column("site-table", "Ledger") == ["unbroken and signed"] * 3
    accuracy = next(rows for rows in page.tables.values() if rows[0][0][0] == "Compared")
    for row, metrics in zip(
        accuracy[1:], (result.metrics_cpdag(TRUTH), result.metrics(TRUTH)), strict=True
    ):
        own = asdict(metrics)
        names = "shd reverse extra miss correct precision recall f1".split()
        assert [cell[1] for cell in row[1:]] == [[str(own[name])] for name in names]
    facts = {own["value"] for tag, own in page.elements if tag == "data"}
    assert {str(round(result.seconds, 3)), str(max(result.bytes_sent_per_site.values()))} <= facts
    assert "2026-05-04 03:02 UTC" in page.texts["footer"]


def test_the_rounds_that_stand_together_add_up(result):
    page = page_of(result)
    stages = next(rows for rows in page.tables.values() if rows[0][0][0] == "Rounds")
    values, sent = ([int(row[k][1][0]) for row in stages[1:]] for k in (2, 3))
    assert sum(values) == sum(report.values for report in result.rounds)
    assert sum(sent) == sum(max(r.bytes_sent_per_site.values()) for r in result.rounds)
    assert stages[-1][0][0].endswith(str(result.rounds[-1].number))


def test_every_edge_is_drawn_once_and_leads_to_its_row(result):
    page = page_of(result)
    drawn = [own for tag, own in page.elements if "cd-edge" in own.get("class", "")]
    assert [own["href"] for own in drawn] == [
        f"#edge-{number}" for number in range(1, len(result.graph.edges) + 1)
    ]
    assert [json.loads(own["data-ends"]) for own in drawn] == [
        [edge.source, edge.target] for edge in result.graph.edges
    ]
    boxes = [own["data-node"] for _, own in page.elements if "data-node" in own]
    assert sorted(boxes) == sorted(result.graph.nodes)
    heads = [own for _, own in page.elements if own.get("class") == "cd-head"]
    assert len(heads) == len(result.graph.directed)


def test_the_truth_is_told_edge_by_edge(result):
    page = page_of(result, truth=TRUTH)
    verdicts = page.column("edge-table", "Truth")
    metrics = result.metrics_cpdag(TRUTH)
    assert verdicts.count("as in the truth") == metrics.correct
    assert verdicts.count("not in the truth") == metrics.extra
    assert sum(verdict.startswith("truth: ") for verdict in verdicts) == metrics.reverse
    assert "No true graph was given" not in page.texts["main"]
    plain = page_of(result)
    assert "No true graph was given" in plain.texts["main"]
    assert "Truth" not in [cell[0] for cell in plain.tables["edge-table"][0]]


def test_every_number_of_a_feature_report_is_the_results(selection):
    page = page_of(selection)
    rows = [(label, own) for label, chosen in selection.features.items() for own in chosen]
    assert rows
    assert page.column("feature-table", "Label") == [label for label, _ in rows]
    assert page.column("feature-table", "Feature") == [own.feature for _, own in rows]
    for heading, field in (("Strength", "strength"), ("p-value", "p_value")):
        shown = page.column("feature-table", heading, values=True)
        assert shown == [[str(getattr(own, field))] for _, own in rows]
    kinds = page.column("feature-table", "How")
    assert [kind.startswith("brought back") for kind in kinds] == [o.retrieved for _, o in rows]


def hostile(result):
    names = dict(zip(result.graph.nodes, HOSTILE, strict=True))
    return replace(
        result,
        graph=result.graph.relabel(names),
        dag=result.dag.relabel(names),
        dag_note=HOSTILE[0],
        identifiers={names[name]: own for name, own in result.identifiers.items()},
        parameters={HOSTILE[0]: HOSTILE[1]} | dict(result.parameters),
        versions=dict(result.versions) | {HOSTILE[0]: HOSTILE[1]},
        evidence=GraphEvidence(
            measure=HOSTILE[0],
            edges=tuple(
                EdgeEvidence(names[e.source], names[e.target], e.strength, HOSTILE[1], HOSTILE[:3])
                for e in result.evidence.edges
            ),
            support=HOSTILE[1],
            separations=(Separation(HOSTILE[0], HOSTILE[1], HOSTILE[2:4], 0.5),),
            remarks=HOSTILE[:2],
        ),
        dropouts=(
            DropOut(HOSTILE[0], 1, HOSTILE[1], HOSTILE[2], in_sum=False, n_sites=2, fewest=2),
        ),
        rounds=tuple(replace(report, label=HOSTILE[3]) for report in result.rounds),
        panels=(
            Rows(title=HOSTILE[0], note=HOSTILE[1], columns=HOSTILE[:2], rows=(HOSTILE[2:4],)),
            Curves(
                title=HOSTILE[0],
                note=HOSTILE[1],
                x_label=HOSTILE[2],
                y_label=HOSTILE[3],
                series=(Series(HOSTILE[0], ((0.0, 1.0),)), Series(HOSTILE[1], ())),
            ),
            HeatMap(
                title=HOSTILE[3],
                note=HOSTILE[1],
                rows=HOSTILE[:2],
                columns=HOSTILE[2:4],
                values=((0.1, None), (0.4, 1.0)),
            ),
        ),
    )


def test_hostile_names_are_text_wherever_they_stand(result):
    attacked = hostile(result)
    truth = TRUTH.relabel(dict(zip(result.graph.nodes, HOSTILE, strict=True)))
    page = page_of(attacked, truth=truth)
    plain = page_of(replace(result, panels=attacked.panels), truth=TRUTH)
    tags = {tag for tag, _ in plain.elements}
    assert {tag for tag, _ in page.elements} <= tags  # no element that a harmless run lacks
    assert page.texts["title"].startswith("FedPC over 3 sites")
    assert set(page.column("edge-table", "From")) <= set(HOSTILE)
    boxes = [own["data-node"] for _, own in page.elements if "data-node" in own]
    assert set(boxes) == set(HOSTILE)
    assert "49" not in page.texts["nav"]


def test_hostile_names_in_a_notebook_are_text():
    graph = CausalGraph.from_edges(HOSTILE, [(HOSTILE[0], name) for name in HOSTILE[1:]])
    page = Page(graph._repr_html_())
    assert {tag for tag, _ in page.elements} <= {
        *("div", "style", "svg", "g", "title", "path", "polygon", "rect", "text"),
        *("details", "summary", "pre"),
    }
    assert [own["data-node"] for _, own in page.elements if "data-node" in own] == list(HOSTILE)
    assert str(graph) in page.texts["pre"]


def test_a_large_graph_is_shown_as_communities_and_whole(result):
    dag = random_dag(130, 2.0, np.random.default_rng(3))
    graph = CausalGraph.from_arcs([f"gene{i}" for i in range(130)], dag)
    names = {name: str(k) for k, name in enumerate(graph.nodes, start=1)}
    large = replace(result, graph=graph, dag=graph, identifiers=names, evidence=GraphEvidence())
    page = page_of(large)
    links = [own for tag, own in page.elements if tag == "a" and "data-edge" in own]
    assert len(links) == len(graph.edges)
    boxes = [own["data-node"] for _, own in page.elements if "data-node" in own]
    assert set(graph.nodes) <= set(boxes)
    assert len(boxes) > len(graph.nodes)
    notebook = Page(graph._repr_html_())
    assert 1 < len([1 for _, own in notebook.elements if "data-node" in own]) < 40


def test_a_result_without_edges_or_evidence_has_a_report(result):
    empty = CausalGraph.empty(result.graph.nodes)
    page = page_of(replace(result, graph=empty, dag=empty, evidence=GraphEvidence()))
    assert "No edge was found." in page.texts["main"]


def test_a_changed_ledger_is_named_and_one_that_stays_at_its_site_is_said_to(result):
    site = result.sites[1]
    lines = result.ledgers[site]
    changed = replace(result, ledgers={**result.ledgers, site: (*lines[:1], *lines[2:])})
    assert page_of(changed).column("site-table", "Ledger") == [
        "unbroken and signed",
        "line 2 does not continue the line before",
        "unbroken and signed",
    ]
    cut = replace(result, ledgers={**result.ledgers, site: lines[:-1]})
    assert page_of(cut).column("site-table", "Ledger")[1] == "does not end as the site reported"
    away = page_of(replace(result, ledgers={}))
    assert away.column("site-table", "Ledger") == ["stays at the site"] * 3
    assert "seen by the coordinator only as a sum over 3 sites" in away.texts["main"]


def test_a_run_in_the_clear_says_so_where_nobody_can_miss_it():
    open_run = adversary.hospitals("none").run(FedPC())
    page = page_of(open_run)
    assert "Answers left the sites in the clear" in page.texts["header"]
    assert "IN THE CLEAR" in page.texts["main"]
    assert "No row left a site" not in page.texts["body"]


def test_a_dropout_is_told(result):
    gone = DropOut(result.sites[0], 2, "share", "no reply", in_sum=False, n_sites=2, fewest=2)
    page = page_of(replace(result, dropouts=(gone,)))
    assert page.column("site-table", "In the run")[0] == "left in round 2"
    assert f"Site '{result.sites[0]}' left in round 2" in page.texts["main"]


def test_the_folder_holds_the_report_and_its_numbers(result, tmp_path):
    result.save(tmp_path, truth=TRUTH)
    Page((tmp_path / "report.html").read_text("utf-8")).check_offline()
    saved = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert saved["evidence"] == json.loads(json.dumps(asdict(result.evidence)))
    assert saved["panels"] == []


@settings(max_examples=25)
@given(st.integers(0, 5000))
def test_evidence_recounts_the_votes_and_names_true_separations(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    dag = random_dag(n, min(2.5, n - 1), rng)
    oracle = OracleTest(dag)
    names = [f"v{i}" for i in range(n)]
    outcome, _ = drive(FedPC(max_cond_size=None).ask(n, 3), [respondent(oracle)] * 3)
    evidence = fedpc_evidence(outcome, names, n_sites=3)
    graph = CausalGraph.from_arcs(names, outcome.arcs)
    assert [(e.source, e.target) for e in evidence.edges] == [
        (e.source, e.target) for e in graph.edges
    ]
    assert all(edge.strength == 1.0 and edge.shown == "3/3" for edge in evidence.edges)
    for own in evidence.separations:
        x, z, *conditions = (names.index(v) for v in (own.first, own.second, *own.given))
        assert oracle.separated(x, z, conditions)
    for edge in graph.edges:
        facts = " ".join(evidence.of(edge.target, edge.source).facts)
        assert ("Both directions" in facts) == (edge.mark == "---")
        if "Collider" in facts:
            assert edge.mark == "-->"
    counted, unanimous = (int(word) for word in evidence.remarks[0].split() if word.isdigit())
    assert counted == unanimous  # three sites with one oracle always agree
    assert counted <= sum(len(layer.votes) for layer in outcome.votes)


def test_evidence_tells_a_divided_vote():
    # two sites see a - b - c, the third sees nothing: every edge is kept by two of three
    chain = np.zeros((3, 3), dtype=bool)
    chain[0, 1] = chain[1, 2] = True
    sites = [OracleTest(chain), OracleTest(chain), OracleTest(np.zeros((3, 3), dtype=bool))]
    outcome, _ = drive(FedPC().ask(3, 3), [respondent(site) for site in sites])
    evidence = fedpc_evidence(outcome, "abc", n_sites=3)
    assert [edge.shown for edge in evidence.edges] == ["2/3", "2/3"]
    assert evidence.edges[0].strength == 2 / 3
    assert evidence.edges[0].facts[0] == (
        "Kept by 2 of 3 sites given nothing, 2 of 3 sites given any 1 neighbour."
    )
    # three pairs given nothing, then a - b and b - c and a - c given one: a - c by nobody
    assert evidence.remarks[0].startswith("6 votes on edges were counted; 1 of them were unanimous")


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
    rows = Rows(title="Beam", note="Last beam.", columns=("graph", "regret"), rows=(("g1", 3.5),))
    page = page_of(replace(result, panels=(curves, beliefs, rows)))
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
    for ticks in (curves.x_ticks, curves.y_ticks):
        assert len(ticks) <= 7
        assert [tick.value for tick in ticks] == sorted({tick.value for tick in ticks})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Curves(title="t", note="", x_label="", y_label="", series=()),
        lambda: Curves(
            title="t", note="", x_label="", y_label="", series=(Series("s", ((0.0, np.nan),)),)
        ),
        lambda: HeatMap(title="t", note="", rows=("a",), columns=("b",), values=((2.0,),)),
        lambda: HeatMap(title="t", note="", rows=("a",), columns=("b",), values=()),
        lambda: Rows(title="t", note="", columns=("a", "b"), rows=(("x",),)),
    ],
)
def test_panels_that_make_no_sense_are_refused(make):
    with pytest.raises(ParameterError):
        make()
