"""RFcd's search against all DAGs, its objectives against each other, and its questions."""

import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from driving import drive
from fuzzing import mutate
from hypothesis import given
from hypothesis import strategies as st
from oracle import random_dag
from regretting import (
    MadeUpScore,
    algorithm_1,
    every_dag,
    gaussian,
    linear_sites,
    scored,
    worst_regrets,
)

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.algorithm import RFcd, Searching
from cipherdag.algorithms.rfcd.searches import Valued
from cipherdag.errors import (
    BoundExceededError,
    CipherdagError,
    MalformedMessageError,
    ParameterError,
)
from cipherdag.graphs.dags import dag_of, empty_dag, matrix_of, n_edges
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.questions.regrets import (
    FamilyRegretExceeds,
    GraphRegretExceeds,
    ScoreSpec,
    pack_families,
    pack_graphs,
    pack_thresholds,
    unpack_families,
)
from cipherdag.sites.answers.regret_answers import on_grid
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.scores.scores import LocalScores


def sites_of(seed):
    """Every second case made of real data, the others of scores without any structure."""
    rng = np.random.default_rng(seed)
    n_sites = int(rng.integers(2, 6))
    if seed % 2:
        return gaussian(linear_sites(4, n_sites, 150, seed)[1])
    return [LocalScores(MadeUpScore(4, rng)) for _ in range(n_sites)]


@pytest.mark.parametrize("seed", range(16))
def test_a_full_beam_finds_the_best_of_all_543_dags(seed):
    scores = sites_of(seed)
    graphs = every_dag(4)
    assert len(graphs) == 543
    values = worst_regrets(scores, graphs)
    best = min((Valued(value, dag) for dag, value in values.items()), key=lambda own: own.rank)
    sites = [scored(own) for own in scores]
    # scores without structure differ within an equivalence class, as the spline score does
    kind = "bic" if seed % 2 else "mdl"
    whole = RFcd(score=kind, searching=Searching(search="beam", beam=543))
    outcome, _ = drive(whole.ask(Facts(4, len(sites))), sites)
    assert outcome.candidates == 543
    assert outcome.regret == best.value / 1024
    assert dag_of(outcome.dag) == best.dag
    one, five = (RFcd(searching=Searching(search="beam", beam=own)) for own in (1, 5))
    for algorithm in (RFcd(), one, five, RFcd(objective="nodewise")):
        found, _ = drive(replace(algorithm, score=kind).ask(Facts(4, len(sites))), sites)
        assert values[dag_of(found.dag)] >= best.value
        if algorithm.objective == "graph":
            assert found.regret == values[dag_of(found.dag)] / 1024


@pytest.mark.parametrize("seed", range(1, 16, 2))
def test_with_all_classes_kept_the_best_of_them_is_found(seed):
    scores = sites_of(seed)
    values = worst_regrets(scores, every_dag(4))
    asking = RFcd(searching=Searching(kept=185)).ask(Facts(4, len(scores)))
    outcome, asked = drive(asking, [scored(own) for own in scores])
    assert outcome.regret * 1024 == min(values.values())
    # Markov equivalence classes of four variables, each asked about once
    assert outcome.candidates == 185
    assert all(q.n_graphs <= 185 for q in asked)


# variables, rows, seed: three sites, on which Algorithm 1 with a beam of 10 ends far from its aim
MISSED = [(6, 200, 5), (6, 5000, 5), (8, 200, 0), (8, 1000, 1), (8, 5000, 0), (8, 5000, 6),
          (10, 1000, 2), (10, 5000, 7)]  # fmt: skip


@pytest.mark.parametrize(("p", "rows", "seed"), MISSED)
def test_what_the_beam_misses_is_found_at_about_its_cost(p, rows, seed):
    truth, tables = linear_sites(p, 3, rows, seed)
    scores = gaussian(tables)
    sites = [scored(own) for own in scores]
    found, asked = drive(RFcd().ask(Facts(p, 3)), sites)
    beam, longer = drive(RFcd(searching=Searching(search="beam")).ask(Facts(p, 3)), sites)
    planted = worst_regrets(scores, [truth])[truth] / 1024
    assert found.regret <= planted
    assert beam.regret > found.regret + 2
    assert len(asked) <= 1.5 * len(longer)
    assert list(found.curve) == sorted(found.curve, reverse=True)


@pytest.mark.parametrize("seed", range(6))
def test_the_beam_is_that_of_algorithm_1_with_all_regrets_known(seed):
    _, tables = linear_sites(5, 4, 120, seed)
    scores = gaussian(tables)
    values = worst_regrets(scores, every_dag(5))
    width = (1, 3, 10)[seed % 3]
    curve = algorithm_1(values, 5, width)
    outcome, _ = drive(
        RFcd(searching=Searching(search="beam", beam=width)).ask(Facts(5, 4)),
        [scored(own) for own in scores],
    )
    assert dag_of(outcome.dag) == curve[-1].dag
    assert outcome.regret == curve[-1].value / 1024
    assert [value * 1024 for value in outcome.curve][: len(curve)] == [own.value for own in curve]


def test_a_planted_graph_is_found_from_many_rows():
    dag, tables = linear_sites(6, 3, 20_000, 4)
    sites = [scored(own) for own in gaussian(tables)]
    outcome, _ = drive(RFcd().ask(Facts(6, 3)), sites)
    assert (outcome.arcs == cpdag_of(outcome.dag)).all()
    assert (outcome.arcs == cpdag_of(matrix_of(dag))).all()


@pytest.mark.parametrize("seed", range(4))
def test_sum_and_nodewise_are_what_they_say(seed):
    _, tables = linear_sites(4, 3, 100, seed)
    scores = gaussian(tables)
    sites = [scored(own) for own in scores]
    worst = worst_regrets(scores, every_dag(4))
    alone = [worst_regrets([own], every_dag(4)) for own in scores]
    whole = Searching(search="beam", beam=543)
    summed, _ = drive(RFcd(objective="sum", searching=whole).ask(Facts(4, 3)), sites)
    least = min(sum(own[dag] for own in alone) for dag in every_dag(4))
    assert summed.regret * 1024 == pytest.approx(least, abs=4 * 3)  # every family is rounded
    nodewise, asked = drive(RFcd(objective="nodewise", searching=whole).ask(Facts(4, 3)), sites)
    assert nodewise.regret * 1024 >= worst[dag_of(nodewise.dag)] - 4
    families = [own for q in asked for own in q.family_list()]
    assert len({(v, own) for v, own in families}) <= 4 * 8


def test_negative_regrets_keep_their_sign():
    """A site whose own search missed its optimum finds other graphs better than its own."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 16)) * 5
    empty = empty_dag(4)

    class Stuck(MadeUpScore):
        def evaluate(self, families):
            # one edge alone always costs, two together gain: greedy search stays with none
            return np.array(
                [
                    {0: 0.0, 1: 1.0, 2: -50.0}[min(own.bit_count(), 2)] + 0 * table[v, own]
                    for v, own in families
                ]
            )

    scores = [LocalScores(Stuck(4, rng)) for _ in range(2)]
    values = worst_regrets(scores, every_dag(4))
    assert values[empty] == 0
    algorithm = RFcd(score="mdl", searching=Searching(beam=543))
    outcome, _ = drive(algorithm.ask(Facts(4, 2)), [scored(own) for own in scores])
    assert outcome.regret == min(values.values()) / 1024 < 0


def test_ties_go_to_the_fewest_edges_and_then_to_the_first():
    class Flat(MadeUpScore):
        def evaluate(self, families):
            return np.zeros(len(families))

    sites = [scored(LocalScores(Flat(4, np.random.default_rng(0)))) for _ in range(3)]
    beam = RFcd(searching=Searching(search="beam"))
    for algorithm in (RFcd(), beam, RFcd(objective="sum")):
        outcome, _ = drive(algorithm.ask(Facts(4, 3)), sites)
        assert not outcome.dag.any()


def test_a_step_costs_the_sites_only_the_changed_families():
    rng = np.random.default_rng(3)
    made_up = MadeUpScore(5, rng)
    drive(
        RFcd(score="mdl", searching=Searching(beam=3)).ask(Facts(5, 1)),
        [scored(LocalScores(made_up))],
    )
    assert len(made_up.computed) == len(set(made_up.computed)) <= 5 * 16


def test_all_candidates_of_a_step_are_one_question():
    _, tables = linear_sites(5, 3, 200, 1)
    _, asked = drive(RFcd().ask(Facts(5, 3)), [scored(own) for own in gaussian(tables)])
    # one of each class: 20 graphs of one edge are 10 classes
    assert next(q.n_graphs for q in asked if q.n_graphs > 1) == 10


def test_no_variable_to_join_and_no_edge_to_find():
    _, tables = linear_sites(1, 3, 50, 1)
    outcome, _ = drive(RFcd().ask(Facts(1, 3)), [scored(own) for own in gaussian(tables)])
    assert outcome.dag.shape == (1, 1)
    assert outcome.regret == 0


graph_lists = st.integers(0, 2**32).map(
    lambda seed: [
        dag_of(random_dag(6, 2.5, np.random.default_rng((seed, k)))) for k in range(seed % 9 + 1)
    ]
)


@given(graphs=graph_lists)
def test_packed_graphs_and_families_read_back(graphs):
    families, packed = pack_graphs(graphs)
    question = GraphRegretExceeds(
        n_variables=6,
        spec=ScoreSpec(),
        families=families,
        graphs=packed,
        n_graphs=len(graphs),
        thresholds=pack_thresholds(np.array([[-3, 5]])),
        grid_bits=4,
    )
    listed = question.family_list()
    rows = [tuple(listed[k][1] for k in row) for row in question.graph_rows().tolist()]
    assert rows == graphs
    assert question.threshold_array().tolist() == [[-3, 5]] * len(graphs)
    raw = msgspec.msgpack.encode(question)
    assert msgspec.msgpack.decode(raw, type=type(question)) == question
    assert unpack_families(pack_families(listed, 6), 6) == listed


@pytest.mark.parametrize(
    "change",
    [
        {"families": b"\x00"},
        {"families": (9).to_bytes(2, "little") + b"\x00"},
        {"families": b"\x00\x00\x01"},
        {"thresholds": b""},
        {"thresholds": (7).to_bytes(8, "little")},
        {"thresholds": (0).to_bytes(8, "little")},
        {"grid_bits": 21},
        {"n_graphs": -1},
        {"n_variables": 0},
        {"graphs": b"\x01"},
        {"graphs": (9).to_bytes(4, "little")},
        {"graphs": (1).to_bytes(4, "little") + (7).to_bytes(4, "little")},
        {"graphs": (1).to_bytes(4, "little") + (0).to_bytes(4, "little")},
    ],
)
def test_a_malformed_question_is_refused(change):
    families, packed = pack_graphs([empty_dag(3)])
    good = {
        "n_variables": 3,
        "spec": ScoreSpec(),
        "families": families,
        "graphs": packed,
        "n_graphs": 1,
        "thresholds": pack_thresholds(np.array([[0]])),
        "grid_bits": 10,
    }
    GraphRegretExceeds(**good)
    with pytest.raises(ValueError):
        GraphRegretExceeds(**(good | change)).graph_rows()
    if "graphs" in change:
        site = scored(LocalScores(MadeUpScore(3, np.random.default_rng(0))))
        with pytest.raises(MalformedMessageError):
            site.answer(GraphRegretExceeds(**(good | change)))


@given(seed=st.integers(0, 2**32))
def test_hostile_bytes_end_in_a_named_error_or_an_answer(seed):
    source = random.Random(seed)
    graphs = [dag_of(random_dag(4, 1.5, np.random.default_rng(k))) for k in range(5)]
    families, packed = pack_graphs(graphs)
    question = GraphRegretExceeds(
        n_variables=4,
        spec=ScoreSpec(),
        families=families,
        graphs=packed,
        n_graphs=5,
        thresholds=pack_thresholds(np.zeros((5, 2), dtype=np.int64)),
        grid_bits=10,
    )
    raw = mutate(msgspec.msgpack.encode(question), source)
    site = scored(LocalScores(MadeUpScore(4, np.random.default_rng(0))))
    try:
        asked = msgspec.msgpack.decode(raw, type=GraphRegretExceeds)
        if asked.n_values < 100_000:
            site.answer(asked)
    except (msgspec.DecodeError, UnicodeDecodeError, CipherdagError):
        pass  # what the wire and the site make of it


def test_other_variables_and_sites_without_scores_refuse():
    question = FamilyRegretExceeds(
        n_variables=3,
        spec=ScoreSpec(),
        families=pack_families([(0, 0)], 3),
        thresholds=pack_thresholds(np.array([[0]])),
        grid_bits=1,
    )

    with pytest.raises(MalformedMessageError):
        scored(LocalScores(MadeUpScore(4, np.random.default_rng(0)))).answer(question)
    with pytest.raises(MalformedMessageError):
        SiteView(None, None, (0,) * 3).answer(question)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 2.0**33])
def test_a_regret_beyond_the_grid_never_leaves(wrong):
    with pytest.raises(BoundExceededError):
        on_grid(np.array([0.0, wrong]), 10)


@pytest.mark.parametrize(
    "parameters",
    [
        {"score": "bdeu"},
        {"objective": "mean"},
        {"searching": Searching(search="orders")},
        {"searching": Searching(beam=0)},
        {"searching": Searching(grid_bits=21)},
        {"searching": Searching(grid_bits=-1)},
    ],
)
def test_parameters_are_checked(parameters):
    with pytest.raises(ParameterError):
        RFcd(**parameters)


def test_equal_graphs_are_asked_once():
    _, tables = linear_sites(4, 2, 100, 5)
    algorithm = RFcd(score="mdl", searching=Searching(beam=543))
    _, asked = drive(algorithm.ask(Facts(4, 2)), [scored(own) for own in gaussian(tables)])
    first = [q for q in asked if len(np.unique(q.threshold_array(), axis=0)) == 1]
    listed = []
    for question in first:
        families = question.family_list()
        listed += [tuple(families[k][1] for k in row) for row in question.graph_rows().tolist()]
    searched = [dag for dag in listed if n_edges(dag)]
    assert len(set(searched)) == 542
