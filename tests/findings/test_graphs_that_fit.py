"""What a person reads of graphs that fit: each edge's two directions, and what to do next."""

import numpy as np
import pytest

from cipherdag import LearntGraph
from cipherdag.graphs.graph_sample import GraphSample

NAMES = ("age", "dose", "pulse")


@pytest.fixture
def learnt():
    dag = np.zeros((3, 3), bool)
    dag[0, 1] = dag[1, 2] = True
    arcs = np.zeros((10, 3, 3), bool)
    arcs[:, 0, 1] = arcs[:6, 1, 2] = arcs[6:9, 2, 1] = True  # the last does not join dose and pulse
    return LearntGraph.of_dag(NAMES, dag).with_sample(GraphSample(NAMES, arcs))


def test_an_edge_says_how_many_graphs_point_which_way(learnt):
    first, second = (row.sentence for row in learnt.sections(None)["edges"])
    assert first == "age causes dose directly in >99 % of graphs that fit, dose causes age in <1 %."
    pulse = "pulse causes dose in 30 %; in the others neither does."
    assert second == f"dose causes pulse directly in 60 % of graphs that fit, {pulse}"


def test_an_edge_of_one_graph_alone_is_said_as_before(learnt):
    (said, _) = LearntGraph(graph=learnt.graph, dag=learnt.dag).sections(None)["edges"]
    assert said.sentence == "age is a cause of dose."


def test_answers_begin_with_the_share_of_graphs(learnt):
    answers = {(a, b): said for a, b, said in learnt.sections(None)["queries"]}
    assert answers["age", "pulse"].startswith("age causes pulse in 60 % of graphs that fit.")
    assert answers["pulse", "age"].startswith("pulse causes age in <1 % of graphs that fit.")


def test_the_terminal_says_what_shares_suppose_and_what_is_next(learnt):
    said = "\n".join(learnt.lines(3))
    assert "of 10 graphs that fit these data" in said
    assert "if nothing unmeasured causes two of these variables" in said
    assert "cipherdag effect FOLDER --of CAUSE --on OUTCOME" in said
    assert "cipherdag effect" not in "\n".join(
        LearntGraph(graph=learnt.graph, dag=learnt.dag).lines(3)
    )
