"""The evidence of a FedPC graph: votes are recounted, and separations hold in the true graph."""

from dataclasses import replace

import numpy as np
from driving import drive, respondent
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleTest, random_dag

from cipherdag import FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.graph_evidence import joint_evidence, votes_evidence
from cipherdag.algorithms.fedpc.voting import PAPER
from cipherdag.graphs.graph import CausalGraph


@settings(max_examples=25)
@given(st.integers(0, 5000))
def test_evidence_recounts_the_votes_and_names_true_separations(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    dag = random_dag(n, min(2.5, n - 1), rng)
    oracle = OracleTest(dag)
    names = [f"v{i}" for i in range(n)]
    outcome, _ = drive(
        FedPC(evidence="vote", max_cond_size=None).ask(Facts(n, 3)), [respondent(oracle)] * 3
    )
    evidence = votes_evidence(outcome, names, sepset="max", reference=PAPER)
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
    outcome, _ = drive(
        FedPC(evidence="vote").ask(Facts(3, 3)), [respondent(site) for site in sites]
    )
    evidence = votes_evidence(outcome, "abc", sepset="max", reference=PAPER)
    assert [edge.shown for edge in evidence.edges] == ["2/3", "2/3"]
    assert evidence.edges[0].strength == 2 / 3
    assert evidence.edges[0].facts[0] == (
        "Kept by 2 of 3 sites given nothing, 2 of 3 sites given any 1 neighbour."
    )
    # three pairs given nothing, then a - b and b - c and a - c given one: a - c by nobody
    assert evidence.remarks[0].startswith("6 votes on edges were counted; 1 of them were unanimous")


def collider_without_votes(**more):
    dag = np.zeros((3, 3), dtype=bool)
    dag[0, 1] = dag[2, 1] = True
    outcome, _ = drive(FedPC(evidence="vote").ask(Facts(3, 3)), [respondent(OracleTest(dag))] * 3)
    return replace(outcome, votes=(), **more)


def test_of_closed_votes_nothing_is_said_but_which_edges_stand():
    silent = collider_without_votes()
    evidence = votes_evidence(silent, "abc", sepset="max", reference=PAPER, closed=True)
    assert evidence.unsupported == ()
    assert [(edge.status, edge.shown, edge.tests) for edge in evidence.edges] == [
        ("", "", None)
    ] * 2
    assert all(edge.facts[0].startswith("Collider") for edge in evidence.edges)


def test_tests_over_all_sites_have_no_votes_to_tell():
    silent = collider_without_votes(tests={"pooled": 3})
    evidence = joint_evidence(silent, "abc", "fisher")
    assert evidence.measure == ""
    assert evidence.remarks == ("Evidence: fisher.", "Tests over all sites: 3 pooled.")
    assert [edge.shown for edge in evidence.edges] == ["", ""]
    assert all(edge.facts[0].startswith("No test") for edge in evidence.edges)
    assert all(edge.facts[1].startswith("Collider") for edge in evidence.edges)
    assert "over all sites" in evidence.support
