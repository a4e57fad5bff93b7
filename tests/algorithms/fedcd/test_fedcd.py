"""Fed-CD's aggregation, reliability and rounds against independent references."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from driving import drive
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedcd.algorithm import (
    Averaging,
    FedCD,
    aggregate,
    antisymmetric,
    edge_entropy,
)
from cipherdag.errors import MalformedMessageError, ParameterError
from cipherdag.questions.encodings import pack_floats
from cipherdag.questions.local_beliefs import (
    LOGIT_BOUND,
    MAX_DCDI_VARIABLES,
    LocalBeliefs,
    Training,
    binary_graph,
    edge_probability,
    from_off_diagonal,
    off_diagonal,
)
from cipherdag.sites.answers.belief_answers import (
    distance_weights,
    mass_at,
    reliability,
    site_weights,
    softmax_weights,
    weighted_answer,
)
from cipherdag.sites.answers.site_view import SiteView


def beliefs(p, seed):
    """A random belief matrix over p variables."""
    psi = np.random.default_rng(seed).random((p, p))
    np.fill_diagonal(psi, 0.0)
    return psi


def best_path(belief, graph, mass, i, j):
    """r_ij by listing every simple path (the paper's get_path_beliefs)."""
    found = nx.DiGraph(list(zip(*np.nonzero(graph), strict=True)))
    found.add_nodes_from(range(len(graph)))
    best = mass[i] * belief[i, j]
    for source in np.flatnonzero(mass):
        for path in nx.all_simple_paths(found, source, i):
            product = math.prod(belief[a, b] for a, b in itertools.pairwise(path))
            best = max(best, mass[source] * product * belief[i, j])
    return best


def test_the_papers_worked_example():
    """Example 4.2.1: X1 -> X2 -> X5 -> X6 <- and X3 -> X5; interventions on X1 and on X3."""
    p, x1, x2, x3, x5, x6 = 6, 0, 1, 2, 4, 5
    belief = np.zeros((p, p))
    belief[x1, x2], belief[x2, x5], belief[x3, x5], belief[x5, x6] = 0.9, 0.8, 0.9, 0.6
    graph = belief > 0.5
    scores = []
    for source in (x1, x3):
        mass = np.zeros(p)
        mass[source] = 1.0
        scores.append(reliability(belief, graph, mass))
    first, second = scores
    assert first[x5, x6] == pytest.approx(0.432)
    assert second[x5, x6] == pytest.approx(0.540)  # the text's "0.9 * 0.5" is 0.9 * 0.6
    weights = [softmax_weights(own, belief, 2.0)[x5, x6] for own in scores]
    shares = np.array(weights) / sum(weights)
    assert shares.round(3).tolist() == [0.446, 0.554]


@given(st.integers(2, 6), st.integers(0, 2**31), st.sampled_from(["edges", "tails", "ends"]))
def test_reliability_is_the_best_of_all_paths(p, seed, reach):
    rng = np.random.default_rng(seed)
    belief = beliefs(p, seed)
    graph = belief > rng.random()
    mass = np.where(rng.random(p) < 0.5, rng.random(p), 0.0)
    found = reliability(belief, graph, mass, reach=reach)
    assert (found <= belief + 1e-12).all()  # so the public offset holds
    for i, j in itertools.permutations(range(p), 2):
        expected = best_path(belief, graph, mass, i, j)
        if reach == "ends":
            expected = max(expected, mass[j] * belief[i, j])
        if reach == "edges" and not graph[i, j]:
            expected = 0.0
        assert found[i, j] == pytest.approx(expected)


def test_mass_flows_undivided_and_through_cycles():
    belief = np.array([[0, 0.9, 0], [0, 0, 0.5], [0.8, 0, 0]])
    reached = mass_at(belief, belief > 0, np.array([1.0, 0.0, 0.0]))
    assert reached == pytest.approx([1.0, 0.9, 0.45])


def program_weight(paths, intervened, edge, decay, least):
    """`decay ** distance` of one edge, where the distance to what cannot be reached is infinite."""
    lengths = [
        nx.shortest_path_length(paths, source, edge[0])
        for source in np.flatnonzero(intervened)
        if nx.has_path(paths, source, edge[0])
    ]
    return max(math.pow(decay, min(lengths, default=math.inf)), least)


# 1 to the power of infinity is 1: with a decay of 1 an edge that nothing reaches weighs like others
@pytest.mark.parametrize("decay", [0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("least", [1e-9, 1e-5, 0.3])
@given(st.integers(2, 7), st.integers(0, 2**31))
def test_distances_are_those_of_the_shortest_paths(decay, least, p, seed):
    rng = np.random.default_rng(seed)
    graph = rng.random((p, p)) < 0.3
    np.fill_diagonal(graph, val=False)
    intervened = rng.random(p) < 0.4
    found = distance_weights(graph, intervened, decay=decay, least=least)
    paths = nx.DiGraph(list(zip(*np.nonzero(graph), strict=True)))
    paths.add_nodes_from(range(p))
    for edge in itertools.permutations(range(p), 2):
        expected = program_weight(paths, intervened, edge, decay, least) if graph[edge] else least
        assert found[edge] == pytest.approx(expected)


def test_a_decay_of_one_is_the_plain_mean():
    """As in the program's unbalanced runs: every site weighs 1 everywhere, whatever it did."""
    p = 4
    last = np.random.default_rng(0).standard_normal((2, p, p))
    question = FedCD.as_published("code", decay=1.0, least_weight=1.0)._question(p, 2, 0, last)
    logits = [np.random.default_rng(k).standard_normal((2, p, p)) for k in (1, 2)]
    counts = np.eye(p)[:2] * 50
    answers = zip(logits, counts, strict=True)
    sums = sum(weighted_answer(question, own, done, 100, least=1) for own, done in answers)
    found, _ = aggregate(question, sums)
    off = ~np.eye(p, dtype=bool)
    assert np.allclose(found[0][off], (logits[0] + logits[1])[0][off] / 2)


@given(st.integers(0, 2**31), st.floats(0.1, 30.0))
def test_the_ratio_of_two_sums_is_the_softmax_average(seed, sharpness):
    """Eq. 7, computed directly, on the grid that the question declares."""
    rng = np.random.default_rng(seed)
    p, n_sites = 4, 3
    last = beliefs(p, seed)
    question = LocalBeliefs(
        n_variables=p, round=2, seed=0, belief=pack_floats(last[None]), sharpness=sharpness
    )
    learnt = [beliefs(p, seed + site)[None] for site in range(n_sites)]
    counts = [rng.integers(0, 200, p) * (rng.random(p) < 0.5) for _ in range(n_sites)]
    answers = [
        weighted_answer(question, own, held, 500, least=1)
        for own, held in zip(learnt, counts, strict=True)
    ]
    assert len(answers[0]) == question.n_values
    rounded = []
    for answer in answers:
        parts, start = [], 0
        for encoding in question.encodings:
            part = answer[start : start + encoding.length]
            start += encoding.length
            assert (np.abs(part) <= encoding.bound).all()
            parts.append(
                np.rint(part * 2.0**encoding.resolution_bits) / 2.0**encoding.resolution_bits
            )
        rounded.append(np.concatenate(parts))
    found, _ = aggregate(question, np.sum(rounded, axis=0))
    scores = np.array(
        [
            reliability(last, last > 0.5, np.minimum(held / 100, 1.0), reach="ends")
            for held in counts
        ]
    )
    powers = np.exp(sharpness * (scores - scores.max(axis=0)))
    direct = (powers * np.array(learnt)[:, 0]).sum(axis=0) / powers.sum(axis=0)
    off = ~np.eye(p, dtype=bool)
    assert np.abs(found[0][off] - direct[off]).max() < 1e-10


def test_naive_weights_are_rows_and_the_codes_are_equal():
    p = 3
    one, two = beliefs(p, 1)[None], beliefs(p, 2)[None]
    question = LocalBeliefs(n_variables=p, round=1, seed=0, aggregation="naive")
    sums = weighted_answer(question, one, np.zeros(p), 100, least=1)
    sums = sums + weighted_answer(question, two, np.zeros(p), 300, least=1)
    found, _ = aggregate(question, sums)
    assert np.allclose(found, 0.25 * one + 0.75 * two)

    question = LocalBeliefs(n_variables=p, round=1, seed=0, aggregation="naive", reference="code")
    logits = [np.random.default_rng(k).standard_normal((2, p, p)) for k in range(2)]
    for own in logits:
        own[:, np.arange(p), np.arange(p)] = 0.0
    sums = sum(
        weighted_answer(question, own, np.zeros(p), 10 ** (k + 1), least=1)
        for k, own in enumerate(logits)
    )
    found, _ = aggregate(question, sums)
    assert np.allclose(found, (logits[0] + logits[1]) / 2)


def test_in_the_first_round_mass_stays_where_it_is():
    """No aggregate says which edges carry it, and a site's own belief must not weigh itself."""
    p = 3
    counts = np.array([500.0, 50.0, 0.0])
    for reach, expected in (
        ("tails", [1.0, 0.5, 0.0]),
        ("ends", [1.0, 1.0, 1.0]),
        ("edges", [0.0] * 3),
    ):
        question = LocalBeliefs(n_variables=p, round=1, seed=0, sharpness=2.0, reach=reach)
        weights = [
            site_weights(question, beliefs(p, k)[None], counts, 10, least=1) for k in range(2)
        ]
        assert np.array_equal(*weights)
        assert weights[0][:, 0] == pytest.approx(np.exp(2.0 * (np.array(expected) - 1.0)))


def test_edge_entropy_in_bits():
    assert edge_entropy(np.array([0.0, 1.0])) == 0.0
    assert edge_entropy(np.array([0.5, 0.5])) == pytest.approx(1.0)
    assert edge_entropy(np.array([0.25, 0.0])) == pytest.approx(0.5 * 0.8112781244591328)


def test_theta_is_repaired_as_the_program_does():
    theta = np.array([[0.0, -1.0], [3.0, 0.0]])
    assert antisymmetric(theta).tolist() == [[0.0, -3.0], [3.0, 0.0]]


@given(st.integers(2, 6), st.integers(1, 2), st.integers(0, 2**31))
def test_matrices_travel_without_their_diagonals(p, m, seed):
    matrices = np.array([beliefs(p, seed + k) for k in range(m)])
    assert np.array_equal(from_off_diagonal(off_diagonal(matrices), p), matrices)


def test_probabilities_and_graphs_of_psi_and_of_logits():
    psi = beliefs(3, 0)[None]
    assert np.array_equal(edge_probability(psi), psi[0])
    gamma, theta = np.array([[0.0, 2.0], [-1.0, 0.0]]), np.array([[0.0, 1.0], [-1.0, 0.0]])
    logits = np.array([gamma, theta])
    assert binary_graph(logits).tolist() == [[False, True], [False, False]]
    expected = 1 / (1 + math.exp(-2.0)) / (1 + math.exp(-1.0))
    assert edge_probability(logits)[0, 1] == pytest.approx(expected)


class Believer:
    """A site whose local method nudges a fixed belief towards the last aggregate."""

    def __init__(self, own, counts, rows=100):
        self.own, self.counts, self.rows = own, counts, rows
        self.asked = 0

    def __call__(self, question):
        self.asked += 1
        last = question.belief_arrays()
        learnt = self.own if last is None else 0.5 * (self.own + last[0])
        return weighted_answer(question, learnt[None], self.counts, self.rows, least=1)

    def site(self):
        return SiteView(None, None, (0,) * len(self.own), learn=self)


def test_rounds_go_on_until_all_sites_agree():
    p = 3
    own = np.zeros((p, p))
    own[0, 1] = own[1, 2] = 0.9
    other = own.copy()
    other[0, 2] = 0.6  # believed in until the average pulls it below one half
    sites = [Believer(own, np.array([100.0, 0, 0])), Believer(other, np.array([0, 100.0, 0]))]
    outcome, asked = drive(FedCD(rounds=9).ask(Facts(p, 2)), [s.site() for s in sites])
    assert outcome.agreed
    assert outcome.entropies[0] > 0
    assert outcome.entropies[-1] == 0
    assert 2 <= len(outcome.entropies) < 9
    assert [q.round for q in asked] == list(range(1, len(asked) + 1))
    assert asked[0].belief == b""
    assert outcome.arcs.tolist() == (own > 0.5).tolist()
    assert outcome.cut == ()


def test_a_repeated_question_is_not_trained_again():
    believer = Believer(beliefs(3, 0), np.zeros(3))
    site = believer.site()
    question = LocalBeliefs(n_variables=3, round=1, seed=0)
    assert np.array_equal(site.answer(question), site.answer(question))
    assert believer.asked == 1
    with pytest.raises(MalformedMessageError):
        site.answer(LocalBeliefs(n_variables=4, round=1, seed=0))
    with pytest.raises(MalformedMessageError):
        SiteView(None, None, (0,) * 3).answer(question)


def test_cycles_of_the_aggregate_are_cut_and_named():
    own = np.zeros((3, 3))
    own[0, 1], own[1, 2], own[2, 0] = 0.9, 0.8, 0.7
    sites = [Believer(own, np.zeros(3)).site() for _ in range(2)]
    outcome, _ = drive(FedCD(rounds=2).ask(Facts(3, 2)), sites)
    assert np.argwhere(outcome.arcs).tolist() == [[0, 1], [1, 2]]
    (edge,) = outcome.cut
    assert (edge.source, edge.target) == (2, 0)
    assert edge.belief == pytest.approx(0.7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"averaging": Averaging(full_mass=0)},
        {"averaging": Averaging(reach="heads")},
        {"method": "sdi", "averaging": Averaging(reference="code")},
        {"method": "dcdi-g", "averaging": Averaging(reference="code")},
        {"training": Averaging()},
        {"intervention_type": "imperfect"},
        {"method": "dcdi-g", "intervention_type": "unknown"},
    ],
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError):
        FedCD(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"belief": b"\0" * 8},
        {"belief": pack_floats(np.full((1, 2, 2), 1.5))},
        {"belief": pack_floats(np.full((1, 2, 2), np.nan))},
        {"belief": pack_floats(np.full((2, 2, 2), 2 * LOGIT_BOUND)), "reference": "code"},
        {"n_variables": 1},
        {"n_variables": MAX_DCDI_VARIABLES + 1, "method": "dcdi-dsf"},
        {"round": 0},
        {"seed": -1},
        {"decay": 0.0},
        {"least_weight": 0.0},
        {"max_rows": 1},
    ],
)
def test_questions_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError):
        LocalBeliefs(**({"n_variables": 2, "round": 1, "seed": 0} | wrong))


def test_dcdi_says_how_many_variables_it_takes_and_which_steps_count():
    few, most = FedCD(method="dcdi-g"), MAX_DCDI_VARIABLES
    question = next(few.ask(Facts(most, 3)))
    assert question.training_steps == few.training.epochs * few.training.fit_steps
    assert next(FedCD().ask(Facts(most + 1, 3))).training_steps > question.training_steps
    with pytest.raises(ParameterError, match="at most 100 variables; enco takes more"):
        next(few.ask(Facts(most + 1, 3)))


def test_training_has_limits():
    for name in ("epochs", "fit_steps", "graph_steps", "batch", "graphs", "hidden"):
        with pytest.raises(ValueError, match=name):
            Training(**{name: 10**9})
    with pytest.raises(ValueError, match="sparsity"):
        Training(sparsity=2.0)
