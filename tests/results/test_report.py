"""The report of a run: well formed, offline, safe with any name, and every number the result's."""

import itertools
import json
from dataclasses import asdict, replace
from datetime import UTC, datetime

import adversary
import numpy as np
import pytest
from labelled_runs import LABELS, discrete_table
from oracle import random_dag
from pages import Page
from report_run import TRUTH, altered, asia_run, page_of

from cipherdag import FedCMFS, Federation, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.findings.axes import Curves, Series
from cipherdag.findings.graph import LearntGraph
from cipherdag.findings.graph_page import SAID, edge_in_words
from cipherdag.findings.panels import HeatMap, TablePanel
from cipherdag.graphs.edge_evidence import (
    EdgeEvidence,
    EffectSize,
    GraphEvidence,
    Separation,
    TestsOfEdge,
)
from cipherdag.graphs.edges import Edge
from cipherdag.graphs.graph import CausalGraph
from cipherdag.protocol.progress import DropOut
from cipherdag.results.run import Run

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


@pytest.fixture(scope="module")
def result():
    return asia_run()


@pytest.fixture(scope="module")
def selection():
    """A real run of FedCMFS."""
    table = discrete_table()
    return Federation.split(table, 3, labels=LABELS, seed=1).run(FedCMFS(reveal="sums"))


def test_every_number_of_a_graph_report_is_the_results(result):
    page = page_of(result, truth=TRUTH, written=datetime(2026, 5, 4, 3, 2, tzinfo=UTC))
    edges = result.finding.graph.edges
    assert page.column("edge-table", "From") == [edge.source for edge in edges]
    assert page.column("edge-table", "To") == [edge.target for edge in edges]
    arrows = {"-->": "→", "---": "—"}
    assert page.column("edge-table", "Mark") == [arrows[edge.mark] for edge in edges]
    known = [result.finding.evidence.of(edge.source, edge.target) for edge in edges]
    assert page.column("edge-table", "Strength", values=True) == [
        [str(own.strength)] if own.status == "tested" else [] for own in known
    ]
    assert page.column("edge-table", "Strength") == [edge.shown for edge in known]
    assert page.column("round-table", "Bytes at most", values=True) == [
        [str(max(report.bytes_sent_per_site.values()))] for report in result.rounds
    ]
    for heading, field in (("Round", "number"), ("Values or bits", "values")):
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
        accuracy[1:],
        (result.finding.metrics_cpdag(TRUTH), result.finding.metrics(TRUTH)),
        strict=True,
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
        f"#edge-{number}" for number in range(1, len(result.finding.graph.edges) + 1)
    ]
    assert [json.loads(own["data-ends"]) for own in drawn] == [
        [edge.source, edge.target] for edge in result.finding.graph.edges
    ]
    boxes = [own["data-node"] for _, own in page.elements if "data-node" in own]
    assert sorted(boxes) == sorted(result.finding.graph.nodes)
    heads = [own for _, own in page.elements if own.get("class") == "cd-head"]
    assert len(heads) == len(result.finding.graph.directed)


def test_the_truth_is_told_edge_by_edge(result):
    page = page_of(result, truth=TRUTH)
    verdicts = page.column("edge-table", "Truth")
    metrics = result.finding.metrics_cpdag(TRUTH)
    assert verdicts.count("as in the truth") == metrics.correct
    assert verdicts.count("not in the truth") == metrics.extra
    assert sum(verdict.startswith("truth: ") for verdict in verdicts) == metrics.reverse
    assert "No truth was given" not in page.texts["main"]
    plain = page_of(result)
    assert "No truth was given" in plain.texts["main"]
    assert "Truth" not in [cell[0] for cell in plain.tables["edge-table"][0]]


def test_every_number_of_a_feature_report_is_the_results(selection):
    page = page_of(selection)
    rows = [(label, own) for label, chosen in selection.finding.features.items() for own in chosen]
    assert rows
    assert page.column("feature-table", "Label") == [label for label, _ in rows]
    assert page.column("feature-table", "Feature") == [own.feature for _, own in rows]
    for heading, field in (("Strength", "strength"), ("p-value", "p_value")):
        shown = page.column("feature-table", heading, values=True)
        assert shown == [[str(getattr(own, field))] for _, own in rows]
    kinds = page.column("feature-table", "How")
    assert [kind.startswith("brought back") for kind in kinds] == [o.retrieved for _, o in rows]


def test_numbers_of_numpy_are_saved_as_what_they_are(result, tmp_path):
    edge, *others = result.finding.evidence.edges
    evidence = replace(
        result.finding.evidence, edges=(replace(edge, strength=np.float32(0.5)), *others)
    )
    altered(result, evidence=evidence).save(tmp_path / "run")
    assert Run.load(tmp_path / "run", LearntGraph).finding.evidence.edges[0].strength == 0.5


def hostile(result):
    names = dict(zip(result.finding.graph.nodes, HOSTILE, strict=True))
    return altered(
        result,
        graph=result.finding.graph.relabel(names),
        dag=result.finding.dag.relabel(names),
        dag_note=HOSTILE[0],
        identifiers={names[name]: own for name, own in result.identifiers.items()},
        parameters={HOSTILE[0]: HOSTILE[1]} | dict(result.parameters),
        versions=dict(result.versions) | {HOSTILE[0]: HOSTILE[1]},
        evidence=GraphEvidence(
            measure=HOSTILE[0],
            edges=tuple(
                EdgeEvidence(names[e.source], names[e.target], e.strength, HOSTILE[1], HOSTILE[:3])
                for e in result.finding.evidence.edges
            ),
            support=HOSTILE[1],
            separations=(Separation(HOSTILE[0], HOSTILE[1], HOSTILE[2:4], 0.5),),
            remarks=HOSTILE[:2],
        ),
        dropouts=(
            DropOut(HOSTILE[0], 1, HOSTILE[1], HOSTILE[2], in_sum=False, n_sites=2, fewest=2),
        ),
        rounds=tuple(replace(report, label=HOSTILE[3]) for report in result.rounds),
    )


HOSTILE_PANELS = (
    TablePanel(title=HOSTILE[0], note=HOSTILE[1], columns=HOSTILE[:2], rows=(HOSTILE[2:4],)),
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
)


def test_hostile_names_are_text_wherever_they_stand(result):
    attacked = hostile(result)
    truth = TRUTH.relabel(dict(zip(result.finding.graph.nodes, HOSTILE, strict=True)))
    page = page_of(attacked, truth=truth, panels=HOSTILE_PANELS)
    plain = page_of(result, truth=TRUTH, panels=HOSTILE_PANELS)
    tags = {tag for tag, _ in plain.elements}
    assert {tag for tag, _ in page.elements} <= tags  # no element that a harmless run lacks
    assert page.texts["title"].startswith("FedPC over 3 sites")
    assert set(page.column("edge-table", "From")) <= set(HOSTILE)
    boxes = [own["data-node"] for _, own in page.elements if "data-node" in own]
    assert set(boxes) == set(HOSTILE)
    assert "49" not in page.texts["nav"]


def test_every_effect_is_answered_as_the_graph_answers_it(result):
    page = page_of(result)
    nodes = result.finding.graph.nodes
    pairs = list(itertools.permutations(nodes, 2))
    asked = [page.column("query-table", heading) for heading in ("Cause", "Outcome")]
    assert list(zip(*asked, strict=True)) == pairs
    for (cause, outcome), said in zip(pairs, page.column("query-table", "Answer"), strict=True):
        lines = str(result.finding.graph.identify(cause, outcome)).split("\n")
        wanted = " ".join(f"{line.strip()}." for line in lines)
        assert said.replace("The effect", "the effect").replace("If", "if") == wanted


def test_an_effect_of_many_variables_or_of_no_class_is_not_answered(result):
    many = CausalGraph.empty([f"v{number}" for number in range(21)])
    cycle = [("VisitToAsia", "Smoking"), ("Smoking", "XRay"), ("XRay", "VisitToAsia")]
    wrong = CausalGraph.from_edges(result.finding.graph.nodes, cycle)
    for own in (many, wrong):
        known = {name: str(number) for number, name in enumerate(own.nodes)}
        changed = altered(
            result, graph=own, dag=own, evidence=GraphEvidence(), identifiers=known, details={}
        )
        assert "query-table" not in page_of(changed).tables


def opened_groups(page):
    """The variables of every group that can be opened in place."""
    can = {
        own["data-group"] for tag, own in page.elements if tag == "template" and "data-group" in own
    }
    members = {
        own["data-node"]: json.loads(own["data-members"])
        for _, own in page.elements
        if "data-members" in own
    }
    assert can == set(members)
    return members


def test_a_large_graph_is_shown_as_communities_and_whole(result):
    dag = random_dag(130, 2.0, np.random.default_rng(3))
    graph = CausalGraph.from_arcs([f"gene{i}" for i in range(130)], dag)
    names = {name: str(k) for k, name in enumerate(graph.nodes, start=1)}
    large = altered(result, graph=graph, dag=graph, evidence=GraphEvidence(), identifiers=names)
    page = page_of(large)
    links = [own for tag, own in page.elements if tag == "a" and "data-edge" in own]
    joined = [[edge.source, edge.target] for edge in graph.edges]
    drawn = [(int(own["data-edge"]), json.loads(own["data-ends"])) for own in links]
    assert {number for number, _ in drawn} == set(range(1, len(joined) + 1))
    assert all(joined[number - 1] == ends for number, ends in drawn)  # in opened groups too
    whole = len(graph.nodes) + len(opened_groups(page))
    assert len(links) > len(graph.edges)
    boxes = [own["data-node"] for _, own in page.elements if "data-node" in own]
    assert set(graph.nodes) <= set(boxes)
    assert len(boxes) > whole
    notebook = Page(graph._repr_html_())
    assert 1 < len([1 for _, own in notebook.elements if "data-node" in own]) < 40


def test_a_very_large_graph_is_shown_as_communities_only(result, monkeypatch):
    monkeypatch.setattr("cipherdag.findings.graph_page.MOST_DRAWN", 110)
    names = [f"gene{i}" for i in range(120)]
    chain = CausalGraph.from_edges(names, directed=list(itertools.pairwise(names)))
    identifiers = {name: str(k) for k, name in enumerate(names, start=1)}
    large = altered(
        result, graph=chain, dag=chain, identifiers=identifiers, evidence=GraphEvidence()
    )
    page = page_of(large)
    assert "canvas whole" not in [own.get("class") for _, own in page.elements]
    groups = opened_groups(page)
    assert 1 < len(groups) < 40
    assert sorted(itertools.chain(*groups.values())) == sorted(names)
    boxes = {own["data-node"] for _, own in page.elements if "data-node" in own}
    assert boxes == set(names) | set(groups)
    assert len(page.body("edge-table")) == 119


def test_a_result_without_edges_or_evidence_has_a_report(result):
    empty = CausalGraph.empty(result.finding.graph.nodes)
    page = page_of(altered(result, graph=empty, dag=empty, evidence=GraphEvidence()))
    assert "There is no edge." in page.texts["main"]


def test_a_changed_ledger_is_named_and_so_is_one_kept_at_its_site(result):
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
    assert "seen by everybody only as a sum over 3 sites" in away.texts["main"]


def test_the_ways_of_tests_over_all_sites_are_counted(result):
    skeleton, arcs = result.finding.graph.skeleton(), result.finding.graph.arcs
    outcome = FedPCOutcome(
        skeleton=skeleton,
        arcs=arcs,
        separators={},
        support={},
        tests={"pooled": 41, "withheld: within sites": 7},
    )
    facts = Facts(len(arcs), 3, names=result.finding.graph.nodes)
    found = FedPC(evidence="pooled").conclude(outcome, facts)
    page = page_of(replace(result, finding=found))
    assert "Tests over all sites: 41 pooled, 7 within sites (withheld)." in page.texts["main"]


def test_a_run_in_the_clear_says_so_where_nobody_can_miss_it():
    open_run = adversary.hospitals("none").run(FedPC(evidence="vote"))
    page = page_of(open_run)
    assert "Answers left the sites in the clear" in page.texts["header"]
    assert "IN THE CLEAR" in page.texts["main"]
    assert "No row left a site" not in page.texts["body"]


def test_a_dropout_is_told(result):
    gone = DropOut(result.sites[0], 2, "share", "no reply", in_sum=False, n_sites=2, fewest=2)
    page = page_of(replace(result, dropouts=(gone,)))
    assert page.column("site-table", "In the run")[0] == "left in round 2"
    assert f"Site '{result.sites[0]}' left in round 2" in page.texts["main"]


def test_a_p_value_rounded_to_0_is_shown_as_below_the_grid(selection):
    label, chosen = next((name, own) for name, own in selection.finding.features.items() if own)
    rounded = altered(
        selection,
        features=dict(selection.finding.features)
        | {label: (replace(chosen[0], p_value=0.0), *chosen[1:])},
    )
    page = page_of(rounded)
    assert page.column("feature-table", "p-value")[0] == "< 4.8e-07"
    assert "weighted by rows, of G2, in units of chi-square" in page.texts["main"]
    assert "largest values" not in page.texts["body"]


def test_what_was_known_and_what_few_replicates_have_is_drawn_so(result):
    marks = {0: {"consensus": ""}, 1: {"consensus": "---"}, 2: {"known": "edge"}}
    edges = tuple(
        replace(own, **marks.get(number, {}))
        for number, own in enumerate(result.finding.evidence.edges)
    )
    page = page_of(altered(result, evidence=replace(result.finding.evidence, edges=edges)))
    drawn = [own["class"] for _, own in page.elements if "cd-edge" in own.get("class", "")]
    assert [("cd-doubtful" in own, "cd-known" in own) for own in drawn[:3]] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert all("cd-undirected" in own for own in drawn[:2])
    assert len([1 for _, own in page.elements if own.get("class") == "cd-given"]) == 1
    assert {"—"} == set(page.column("edge-table", "Mark")[:2])
    assert "given before the run" in page.texts["main"]
    assert "fewer than half of the replicates" in page.texts["main"]


def test_the_result_comes_first_and_cost_and_accuracy_last(result):
    page = page_of(result, truth=TRUTH)
    order = ["graph", "edges", "limits", "next", "left", "accuracy", "cost", "settings"]
    assert [own for own in page.ids if own in order] == order
    assert "Most that one site sent" not in page.texts["header"]


def test_every_edge_is_a_sentence_with_its_reference(result):
    page = page_of(result)
    sentences = page.texts["ol"]
    undone = {(each.source, each.target) for each in result.finding.evidence.unsupported}
    assert undone
    assert all(f"{a} and {b} may be connected; " in sentences for a, b in undone)
    for edge in result.finding.graph.directed:
        assert (f"{edge[0]} is a cause of {edge[1]}." in sentences) == (edge not in undone)
    for edge in result.finding.graph.undirected:
        names = [f"{a} and {b} are related;" for a, b in (edge, edge[::-1])]
        assert any(name in sentences for name in names)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("-->", "age (years) is a cause of dose."),
        ("---", "age (years) and dose are related; the data do not say which is the cause."),
    ],
)
def test_an_edge_in_words_has_unit_size_and_reference(mark, said):
    effect = EffectSize("odds ratio", 2.0, 1.5, 2.5, "dose = high (against low)")
    evidence = EdgeEvidence("age", "dose", 0.0, "", given=("sex",), effect=effect)
    edge = Edge("age", "dose", mark)
    assert edge_in_words(edge, SAID[mark], evidence, {"age": "years"}) == (
        f"{said} Among rows with the same sex, dose = high (against low) and age (years) go "
        "together: odds ratio 2 (95 % interval 1.5 to 2.5)."
    )


def test_an_edge_that_rests_on_no_test_is_not_said_to_be_a_cause():
    evidence = EdgeEvidence("age", "dose", 0.0, "", status="untested")
    said = edge_in_words(Edge("age", "dose", "-->"), SAID["-->"], evidence, {})
    apart = "may be connected; the test that could separate them was not done"
    assert said == f"age and dose {apart}."
    tests = TestsOfEdge(3, 2, ("sex",), "rows are too few")
    undone = EdgeEvidence("age", "dose", 0.0, "", known="direction", status="undone", tests=tests)
    assert edge_in_words(Edge("age", "dose", "-->"), SAID["-->"], undone, {}) == (
        "age and dose may be connected; 2 of 3 tests that could separate them were not done "
        "(given sex: rows are too few). You gave its direction before the run."
    )
    supplied = EdgeEvidence("age", "dose", 0.0, "", known="edge", status="required")
    said = edge_in_words(Edge("age", "dose", "-->"), SAID["-->"], supplied, {})
    assert said == "age is a cause of dose. You gave this edge before the run."


def test_the_next_steps_fit_what_was_found(result):
    page = page_of(result)
    assert "cipherdag run graphcheck" in page.texts["main"]
    assert "--bootstrap 100" in page.texts["main"]
    resampled = replace(result, parameters={**result.parameters, "bootstrap": 5})
    assert "--bootstrap 100" not in page_of(resampled).texts["main"]
