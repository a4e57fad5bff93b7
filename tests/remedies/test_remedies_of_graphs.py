"""What an error about a graph, knowledge or a result advises is followed, and the error is gone."""

import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import report_run
from advice import QUOTED, advice, case, evaluated, listed

from cipherdag import CPDAG, PAG, CausalGraph, Describe, FedPC, Knowledge, PartialMixedGraph, Run
from cipherdag.federation.simulated import Federation
from cipherdag.findings.graph_finding import GraphFinding
from cipherdag.graphs.drawing.figure import draw
from cipherdag.graphs.exports import export_graph
from cipherdag.graphs.knowledge import read_tiers

CODE = re.compile(r"`([^`]+)`")
CIRCLE = CausalGraph.from_edges("abc", directed=["ab", "bc", "ca"])
UNCLEAR = CausalGraph.from_edges("abc", directed=["ab"], undirected=["bc"])
CHAIN = CausalGraph.from_edges("abc", undirected=["ab", "bc"])
CIRCLES = PartialMixedGraph.from_csv("from,to,mark\na,b,o->\n", nodes=["a", "b", "c"])


def finding(graph):
    return report_run.altered(report_run.asia_run(), graph=graph).finding


@pytest.mark.follows("Correct the edges; of a learnt graph, `finding.dag`")
def test_a_learnt_graph_with_a_circle_has_a_dag_close_to_it():
    (code,) = CODE.findall(advice(CIRCLE.identify, "a", "b"))
    names = report_run.TRUTH.nodes
    circle = zip(names, (*names[1:], names[0]), strict=True)
    dag = evaluated(code, finding=finding(CausalGraph.from_edges(names, directed=circle)))
    assert dag.identify(*names[:2])


@pytest.mark.follows("`graph.with_knowledge(Knowledge())`")
def test_a_graph_that_leaves_an_edge_open_is_completed():
    (code,) = CODE.findall(advice(UNCLEAR.identify, "a", "b"))
    assert evaluated(code, graph=UNCLEAR, Knowledge=Knowledge).identify("a", "b")


@pytest.mark.follows("it is an MPDAG; else take the CPDAG of a DAG")
def test_an_edge_that_the_class_leaves_open_is_one_of_an_mpdag():
    kind, other = re.search(r"an (\w+); else take the (\w+) of", advice(
        CPDAG.from_edges, "ab", directed=["ab"]
    )).groups()  # fmt: skip
    assert evaluated(kind).from_edges("ab", directed=["ab"])
    assert isinstance(CausalGraph.from_edges("ab", directed=["ab"]).to_cpdag(), evaluated(other))


@pytest.mark.follows("Give the knowledge to the algorithm that learns the graph.")
def test_knowledge_that_a_graph_rules_out_is_given_to_the_algorithm():
    knowledge = Knowledge(required=[("a", "b"), ("c", "b")])
    assert advice(CHAIN.with_knowledge, knowledge).startswith("Give the knowledge to the algorithm")
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    given = FedPC(knowledge=knowledge)
    assert Federation.split(data, 3, device="cpu").run(given)


@pytest.mark.follows("Make graphs of a matrix of arcs with `from_arcs`")
def test_marks_that_no_graph_of_arrows_has_are_of_another_kind():
    (method,) = CODE.findall(advice(CausalGraph, CIRCLES.nodes, CIRCLES.endpoints))
    assert getattr(CausalGraph, method)("ab", [[0, 1], [0, 0]]).edges
    assert PartialMixedGraph(CIRCLES.nodes, CIRCLES.endpoints) == CIRCLES


@pytest.mark.follows("or keep them as a PartialMixedGraph")
def test_marks_of_no_class_are_of_a_graph_that_claims_nothing():
    graph = PartialMixedGraph.from_csv("from,to,mark\na,b,-->\nb,c,<->\n", nodes=list("abc"))
    kind = re.search(r"as a (\w+)", advice(PAG, graph.nodes, graph.endpoints))[1]
    assert evaluated(kind)(graph.nodes, graph.endpoints).edges


@pytest.mark.follows("Its variables are {}.")
def test_a_variable_of_a_graph_is_listed():
    names = listed(advice(CausalGraph.from_edges("ab", directed=["ab"]).identify, "a", "z"))
    assert CausalGraph.from_edges("ab", directed=["ab"]).identify(*names)


@pytest.mark.follows("Make one of a list of edges")
def test_a_list_of_edges_is_made_a_graph(tmp_path):
    edges, file = [("Smoking", "Dyspnoea")], tmp_path / "edges.csv"
    file.write_text("parent,child\nSmoking,Dyspnoea\n", "utf-8")
    own = report_run.asia_run().finding
    parts = re.search(r"edges: (Causal.*\)), or .* edges: (.*)\.", advice(own.metrics, edges))
    for code in parts.groups():
        made = evaluated(code, finding=own, edges=edges, file=file)
        assert own.metrics(made)


@pytest.mark.follows("Take `finding.dag`, or `graph.to_dag()`", "Learn a CPDAG with FedPC")
def test_a_program_that_takes_a_dag_gets_one():
    for code in CODE.findall(advice(CHAIN.to_dowhy)):
        assert evaluated(code, graph=CHAIN, finding=finding(CHAIN)).to_dowhy()
    kind, *names = re.findall(r"(CPDAG|Fed\w+)", advice(CIRCLES.to_dowhy))
    for name in names:
        assert evaluated(name)().concludes.__name__ == "LearntGraph"
    assert kind == report_run.asia_run().finding.graph.kind.upper()


@pytest.mark.follows(
    "Take `graph.without_cycles()`", "Rename the variable, or export", "Use one of {}."
)
def test_a_format_that_is_named_holds_the_graph(tmp_path):
    remedy = advice(CIRCLE.to_bnlearn)
    assert evaluated(CODE.search(remedy)[1], graph=CIRCLE).to_bnlearn()
    others = listed(remedy, "export to ")
    slash = CausalGraph.from_edges(("a\\", "b"))
    others += listed(advice(slash.to_dagitty), "export to ")
    for kind in others:
        for graph in (CIRCLE, slash):
            export_graph(graph, kind.lower(), tmp_path / "graph")
    kinds = listed(advice(export_graph, CHAIN, "zzz", tmp_path / "g"), "one of ")
    for kind in kinds:
        export_graph(CHAIN, kind, tmp_path / "graph")
    assert len(others) == 7


@pytest.mark.follows("Export to causal-learn, networkx, pcalg, dagitty, GraphML or CSV.")
def test_a_program_that_is_named_holds_circles():
    for name in listed(advice(CIRCLES.to_bnlearn), "Export to "):
        assert getattr(CIRCLES, f"to_{name.lower().replace('-', '')}")()


@pytest.mark.follows("Use .svg, .png or .pdf.")
def test_a_picture_is_drawn_in_every_format_that_is_named(tmp_path):
    for ending in re.findall(r"\.[a-z]{3}", advice(draw, CHAIN, tmp_path / "graph.zzz")):
        draw(CHAIN, tmp_path / f"graph{ending}")
        assert (tmp_path / f"graph{ending}").stat().st_size


@pytest.mark.follows("Give a Graph or a DiGraph of networkx.", "Give the attribute G of what pc")
@pytest.mark.filterwarnings("ignore")
def test_graphs_of_other_packages_are_given_as_advised():
    import networkx as nx
    from causallearn.search.ConstraintBased.FCI import fci
    from causallearn.search.ConstraintBased.PC import pc

    for kind in re.findall(r"\b(?:Di)?Graph\b", advice(CausalGraph.from_networkx, nx.MultiGraph())):
        assert CausalGraph.from_networkx(getattr(nx, kind)([("a", "b")])).edges
    data = np.random.default_rng(0).normal(size=(60, 3))
    learnt = pc(data, show_progress=False)
    attribute = re.search(r"attribute (\w+)", advice(CausalGraph.from_causallearn, learnt))[1]
    assert CausalGraph.from_causallearn(getattr(learnt, attribute))
    found = fci(data, show_progress=False, verbose=False)
    assert advice(PartialMixedGraph.from_causallearn, found)
    assert PartialMixedGraph.from_causallearn(found[0])


@pytest.mark.follows("Did you mean '{}'?", "The variables are {}.")
def test_knowledge_names_a_variable_that_is_meant_or_listed():
    (meant,) = QUOTED.findall(advice(Knowledge(forbidden=[("age", "Bmii")]).over, ("age", "bmi")))
    assert Knowledge(forbidden=[("age", meant)]).over(("age", "bmi"))
    names = listed(advice(Knowledge(forbidden=[("age", "zzz")]).over, ("age", "bmi")))
    assert Knowledge(forbidden=[names]).over(("age", "bmi"))


@pytest.mark.follows("Write `variable,tier` into the first line", "Write lines like Smoking,1")
def test_tiers_are_written_as_the_example():
    remedy = advice(read_tiers, "a,b\n")
    first, line = re.search(r"`(\S+)` into .* like (\S+)\.", remedy).groups()
    assert read_tiers(f"{first}\n{line}\n") == (("Smoking",),)
    line = re.search(r"like (\S+):", advice(read_tiers, f"{first}\nSmoking,one\n"))[1]
    assert read_tiers(f"{first}\n{line}\n") == (("Smoking",),)


@pytest.mark.follows("One edge or tier is a list within the list")
def test_knowledge_is_written_as_the_example():
    example = re.search(r"in (\[\[.*\]\])", advice(Knowledge.loads, 'forbidden = ["a", "b"]'))[1]
    assert Knowledge.loads(f"forbidden = {example}").forbidden == (("a", "b"),)


@pytest.mark.follows("Its tables are {}.", "Run with bootstrap=20 or more")
def test_a_listed_table_exists_and_replicates_give_a_consensus():
    run = report_run.asia_run()
    for name in listed(advice(run.finding.table, "zzz")):
        assert run.finding.table(name) is not None
    name, count = re.search(r"(\w+)=(\d+)", advice(run.finding.consensus)).groups()
    data = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (200, 3)), columns=list("abc"))
    federation = Federation.split(data, 3, device="cpu")
    again = federation.run(FedPC(max_cond_size=0, **{name: int(count)}))
    assert again.finding.consensus()


@pytest.mark.follows("Read its {}.", "Leave the true graph out.")
def test_a_result_of_another_kind_is_read_by_its_tables(tmp_path):
    data = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (200, 3)), columns=list("abc"))
    described = Federation.split(data, 3, device="cpu").run(Describe())
    described.save(tmp_path)
    tables = advice(Run.load, tmp_path, GraphFinding).removeprefix("Read its ").rstrip(".")
    for name in tables.split(", "):
        assert len(pd.read_csv(tmp_path / name))
    assert advice(described.page, truth=CHAIN) == "Leave the true graph out."
    assert described.page()


TWO = [[0, 1], [0, 0]]
ONE_END = [[0, 2], [0, 0]]


def arcs(names, matrix=TWO):
    return lambda: CausalGraph.from_arcs(tuple(names), matrix)


def edges(text):
    return lambda: CausalGraph.from_csv(text, nodes=["age", "bmi"])


def knowledge(text):
    return lambda: Knowledge.loads(text)


@pytest.mark.parametrize(
    ("wrong", "mended"),
    [
        case((arcs("a"), arcs("ab")), "Give one name for each row"),
        case((arcs("aa"), arcs("ab")), "Name each variable once"),
        case((arcs(("a", "b\n")), arcs("ab")), "Give every variable a name"),
        case((arcs("ab", [[0, 1]]), arcs("ab")), "Give one row and one column"),
        case(
            (
                lambda: PartialMixedGraph(("a", "b"), ONE_END),
                lambda: PartialMixedGraph(("a", "b"), [[0, 2], [3, 0]]),
            ),
            "Set both entries of an edge",
        ),
        case(
            (
                lambda: CausalGraph.from_networkx([("a", "b")]),
                lambda: CausalGraph.from_networkx(nx.DiGraph([("a", "b")])),
            ),
            "Give a networkx Graph or DiGraph.",
        ),
        case(
            (lambda: CausalGraph.loads("a,b"), lambda: CausalGraph.loads(CHAIN.dumps())),
            "Give the text that `dumps`",
        ),
        case(
            (edges("from,to,mark\nage,bmi\n"), edges("from,to,mark\nage,bmi,-->\n")),
            "Write an edge like age,bmi,-->",
        ),
        case(
            (edges("parent,child\nage\n"), edges("parent,child\nage,bmi\n")),
            "like age,bmi below parent,child",
        ),
        case(
            (knowledge('required = [["a"]]'), knowledge('required = [["cause", "effect"]]')),
            "Correct the knowledge; in a file",
        ),
        case((knowledge("needed = []"), knowledge("required = []")), "Its keys are forbidden"),
        case(
            (lambda: CHAIN.relabel({"z": "y"}), lambda: CHAIN.relabel({"a": "y"})),
            "The variables are {}.",
        ),
    ],
)
def test_a_graph_or_knowledge_is_read_once_it_is_mended(wrong, mended):
    assert advice(wrong)
    assert mended() is not None
