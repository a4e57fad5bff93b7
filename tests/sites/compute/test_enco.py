"""ENCO's gradients against finite differences of the exact objective, and small recoveries."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import TooFewRowsError
from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.enco import (
    EdgeLogits,
    MaskedAdam,
    edge_contrasts,
    likelihood_gradient,
    logit_gradients,
    two_cycle_gradient,
)
from cipherdag.sites.compute.beliefs.mechanisms import Mechanisms, distinct_parent_sets
from cipherdag.sites.compute.beliefs.methods import learn_belief, learn_logits, logits_of
from cipherdag.sites.compute.beliefs.regimes import Regimes
from cipherdag.sites.compute.device import FEWEST_SHARED, PROCESSOR, threads_for

SMALL = Training(epochs=3, fit_steps=150, graph_steps=60, batch=64, graphs=40, hidden=16)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def chain(rows=1500, each=150, p=4, seed=0, categories=4):
    """X0 -> X1 -> ..., each the last plus noise modulo the categories, with all interventions."""
    rng = np.random.default_rng(seed)

    def draw(count, target):
        codes = np.zeros((count, p), dtype=np.int32)
        for j in range(p):
            noise = rng.choice(categories, size=count, p=[0.8, 0.2, *[0.0] * (categories - 2)])
            own = (codes[:, j - 1] + noise) % categories
            root = rng.choice(categories, size=count, p=[0.4, 0.3, 0.2, 0.1])
            uniform = rng.integers(0, categories, count)
            codes[:, j] = uniform if j == target else root if j == 0 else own
        return codes

    codes = np.concatenate([draw(rows, None), *(draw(each, j) for j in range(p))])
    marks = np.zeros(codes.shape, dtype=bool)
    for j in range(p):
        marks[rows + each * j : rows + each * (j + 1), j] = True
    return codes, marks


def regimes_of(codes, marks):
    cells = np.where(codes < 0, np.nan, codes)
    return Regimes.of(cells, (int(codes.max()) + 1,) * codes.shape[1], marks, device=PROCESSOR)


def every_graph(p):
    """All directed graphs without loops over p variables, bool of shape (2**(p(p-1)), p, p)."""
    pairs = [(i, j) for i in range(p) for j in range(p) if i != j]
    bits = np.array(list(itertools.product((False, True), repeat=len(pairs))))
    graphs = np.zeros((len(bits), p, p), dtype=bool)
    for column, (i, j) in enumerate(pairs):
        graphs[:, i, j] = bits[:, column]
    return torch.from_numpy(graphs)


def probabilities(graphs, belief):
    p = belief.shape[0]
    chosen = torch.where(graphs, belief, 1 - belief)
    return chosen[:, ~torch.eye(p, dtype=torch.bool)].prod(dim=1)


def objective(gamma, theta, graphs, nll, penalty, prior):
    """The exact expected loss of Eq. 1 and 2, by enumeration; the penalty is not on theta."""
    belief = torch.sigmoid(gamma) * torch.sigmoid(theta)
    belief = belief.masked_fill(torch.eye(len(belief), dtype=torch.bool), 0.0)
    expected = (probabilities(graphs, belief)[:, None] * nll).sum()
    return expected + ((penalty + prior) * belief).sum()


@pytest.mark.parametrize("p", [3, 4])
@pytest.mark.parametrize("target", [None, 1])
def test_estimators_are_the_gradients_of_the_enumerated_objective(p, target):
    codes, marks = chain(p=p, rows=200, each=20)
    regimes = regimes_of(codes, marks)
    mechanisms = Mechanisms(regimes, hidden=8, generator=generator())
    mechanisms.fit(torch.full((p, p), 0.3).fill_diagonal_(0), steps=30, batch=32)
    graphs = every_graph(p)
    nll = mechanisms.nll_of_graphs(graphs, regimes.observational[:50]).double()
    if target is not None:
        nll[:, target] = 0.0
    draw = generator(p)
    gamma = torch.randn((p, p), generator=draw, dtype=torch.float64)
    upper = torch.triu(torch.randn((p, p), generator=draw, dtype=torch.float64), 1)
    theta = upper - upper.T
    prior = 0.05 * torch.randn((p, p), generator=draw, dtype=torch.float64)
    logits = EdgeLogits(gamma, theta)
    contrast, known = edge_contrasts(graphs, nll, probabilities(graphs, logits.belief()))
    assert known.sum() == p * (p - 1)
    penalty = torch.full((p, p), 0.004, dtype=torch.float64)
    by_gamma, by_theta = logit_gradients(logits, contrast, penalty, prior)

    step = 1e-5
    for i, j in itertools.permutations(range(p), 2):
        change = torch.zeros((p, p), dtype=torch.float64)
        change[i, j] = step
        ends = [
            objective(gamma + sign * change, theta, graphs, nll, penalty, prior) for sign in (1, -1)
        ]
        assert by_gamma[i, j].item() == pytest.approx(
            (ends[0] - ends[1]).item() / (2 * step), abs=1e-8
        )
        turn = change - change.T
        ends = [
            objective(gamma, theta + sign * turn, graphs, nll, 0.0 * penalty, prior)
            for sign in (1, -1)
        ]
        assert by_theta[i, j].item() == pytest.approx(
            (ends[0] - ends[1]).item() / (2 * step), abs=1e-8
        )
    assert torch.allclose(by_theta, -by_theta.T)


def test_the_sampled_estimator_is_unbiased():
    p = 3
    graphs = every_graph(p)
    draw = generator(5)
    nll = torch.rand((len(graphs), p), generator=draw)
    _, which = distinct_parent_sets(graphs)
    for j in range(p):  # the likelihood of j depends on its own parents only
        nll[:, j] = nll[which[j], j]
    belief = torch.full((p, p), 0.4).fill_diagonal_(0.0)
    exact, _ = edge_contrasts(graphs, nll, probabilities(graphs, belief))
    codes = (graphs.long() * (1 << torch.arange(p * p)).view(p, p)).sum(dim=(1, 2))
    place = {int(code): index for index, code in enumerate(codes)}
    total = torch.zeros((p, p))
    repeats, count = 300, 50
    for _ in range(repeats):
        sample = torch.rand((count, p, p), generator=draw) < belief
        keys = (sample.long() * (1 << torch.arange(p * p)).view(p, p)).sum(dim=(1, 2))
        own = nll[[place[int(key)] for key in keys]]
        total += edge_contrasts(sample, own, torch.ones(count))[0]
    assert torch.allclose(total / repeats, exact, atol=0.02)


@given(st.integers(0, 2**31), st.integers(1, 20), st.integers(2, 6))
def test_distinct_parent_sets_lose_nothing(seed, count, p):
    graphs = torch.rand((count, p, p), generator=generator(seed)) < 0.4
    sets, which = distinct_parent_sets(graphs)
    assert sets.shape[1] == max(len({tuple(g[:, j].tolist()) for g in graphs}) for j in range(p))
    for k, j in itertools.product(range(count), range(p)):
        assert torch.equal(sets[j, which[j, k]], graphs[k, :, j])


def test_likelihoods_of_graphs_are_those_of_each_row_on_its_own():
    codes, marks = chain(rows=100, each=10)
    regimes = regimes_of(codes, marks)
    mechanisms = Mechanisms(regimes, hidden=8, generator=generator())
    graphs = torch.rand((7, 4, 4), generator=generator(1)) < 0.5
    graphs &= ~torch.eye(4, dtype=torch.bool)
    rows = regimes.rows[2]
    together = mechanisms.nll_of_graphs(graphs, rows)
    for k, graph in enumerate(graphs):
        inputs = graph.T[:, None, :].expand(4, len(rows), 4).float()
        alone = regimes.nll(mechanisms._outputs_by_row(rows, inputs), rows).mean(dim=1)
        assert torch.allclose(together[k], alone, atol=1e-5)


def test_a_masked_parent_has_no_influence():
    codes, marks = chain(rows=60, each=10)
    other = codes.copy()
    other[:, 0] = (other[:, 0] + 1) % 4
    graphs = torch.zeros((1, 4, 4), dtype=torch.bool)
    graphs[0, 1, 3] = graphs[0, 2, 3] = True
    found = []
    for table in (codes, other):
        regimes = regimes_of(table, marks)
        mechanisms = Mechanisms(regimes, hidden=8, generator=generator())
        found.append(mechanisms.nll_of_graphs(graphs, regimes.observational)[0, 3])
    assert found[0] == found[1]


def test_categories_of_different_numbers_and_numbers_share_one_module():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 80), rng.integers(0, 5, 80)
    cells = np.stack([*codes, 3.0 + 2.0 * rng.standard_normal(80)], axis=1)
    regimes = Regimes.of(cells, (2, 5, 0), None, device=PROCESSOR)
    features = regimes.features(regimes.observational)
    assert features.shape == (80, 8)
    assert (features[:, :7].sum(dim=1) == 2).all()
    assert features[:, 7].mean().abs() < 1e-5
    flat = torch.zeros((3, 80, 5))
    nll = regimes.nll(flat, regimes.observational)
    # uniform over 2 and 5 categories, and a standard normal of standardised numbers
    assert torch.allclose(nll[0], torch.tensor(math.log(2)), atol=1e-6)
    assert torch.allclose(nll[1], torch.tensor(math.log(5)), atol=1e-6)
    assert nll[2].mean().item() == pytest.approx(0.5 * math.log(2 * math.pi) + 0.5, abs=1e-4)


def test_rows_with_missing_values_go_and_observational_ones_must_be():
    codes = np.array([[0, 1], [1, -1], [1, 0], [0, 0]], dtype=np.int32)
    marks = np.array([[0, 0], [0, 0], [0, 0], [1, 0]], dtype=bool)
    regimes = regimes_of(codes, marks)
    assert len(regimes.feature_index) == 3
    assert regimes.counts().tolist() == [1.0, 0.0]
    with pytest.raises(TooFewRowsError):
        regimes_of(codes, np.ones((4, 2), dtype=bool))


def test_masked_adam_is_adam_where_it_is_active():
    draw = generator(3)
    value = torch.randn((3, 3), generator=draw)
    mine, theirs = value.clone(), torch.nn.Parameter(value.clone())
    own = MaskedAdam(mine, 0.1, (0.9, 0.999))
    adam = torch.optim.Adam([theirs], lr=0.1, betas=(0.9, 0.999))
    for _ in range(6):
        gradient = torch.randn((3, 3), generator=draw)
        theirs.grad = gradient.clone()
        adam.step()
        own.step(gradient, torch.ones((3, 3)))
        own.step(torch.full((3, 3), 9.0), torch.zeros((3, 3)))  # changes nothing
    assert torch.allclose(mine, theirs.detach(), atol=1e-5)


@pytest.mark.parametrize("reference", ["belief", "logits"])
def test_enco_recovers_a_chain_and_repeats_itself(reference):
    regimes = regimes_of(*chain())
    found = []
    for _ in range(2):
        if reference == "logits":
            gamma, theta = learn_logits(regimes, None, SMALL, generator(4))
            found.append((gamma > 0) & (theta > 0))
            continue
        belief = learn_belief(
            "enco", regimes, None, SMALL, generator(4), prior_weight=0.0, sampled=False
        )
        found.append(belief > 0.5)
    assert (found[0] == found[1]).all()
    assert (found[0] == np.eye(4, k=1, dtype=bool)).all()


def test_small_tensors_have_one_thread_and_threads_change_no_bit():
    regimes = regimes_of(*chain(rows=300, each=50))
    few = Training(epochs=1, fit_steps=20, graph_steps=20, batch=64, graphs=40, hidden=16)
    usual = torch.get_num_threads()
    beliefs, used = [], []
    try:
        torch.set_num_threads(2)
        for elements in (FEWEST_SHARED - 1, FEWEST_SHARED):
            with threads_for(elements):
                used.append(torch.get_num_threads())
                beliefs.append(learn_logits(regimes, None, few, generator()))
        with pytest.raises(ZeroDivisionError), threads_for(1):
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(usual)
    assert used == [1, 2]
    assert np.array_equal(*beliefs)


def test_interventions_on_several_variables_at_once_and_on_numbers():
    rng = np.random.default_rng(1)
    n = 1200
    marks = np.zeros((n, 3), dtype=bool)
    marks[600:800, 0] = marks[800:1000, 1] = marks[1000:, 1] = marks[1000:, 2] = True
    a = np.where(marks[:, 0], 2 * rng.standard_normal(n), rng.standard_normal(n))
    b = np.where(marks[:, 1], 2 * rng.standard_normal(n), 1.5 * a + 0.5 * rng.standard_normal(n))
    c = np.where(marks[:, 2], 2 * rng.standard_normal(n), b + 0.5 * rng.standard_normal(n))
    regimes = Regimes.of(np.stack([a, b, c], axis=1), (0, 0, 0), marks, device=PROCESSOR)
    assert len(regimes.rows) == 3
    assert regimes.counts().tolist() == [200.0, 400.0, 200.0]
    longer = Training(epochs=8, fit_steps=150, graph_steps=60, batch=64, graphs=40, hidden=16)
    belief = learn_belief(
        "enco", regimes, None, longer, generator(), prior_weight=0.0, sampled=False
    )
    assert belief[0, 1] > 0.5 > belief[1, 0]
    assert belief[1, 2] > 0.5 > belief[2, 1]


def test_a_strong_prior_decides_what_the_data_leave_open():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (400, 2)).astype(np.int32)
    codes[:, 1] = codes[:, 0] ^ (rng.random(400) < 0.2)  # symmetric: no direction in the data
    regimes = regimes_of(codes, None)
    for prior in ([[0.0, 0.9], [0.1, 0.0]], [[0.0, 0.1], [0.9, 0.0]]):
        known = np.array(prior)
        belief = learn_belief(
            "enco", regimes, known, SMALL, generator(), prior_weight=0.02, sampled=False
        )
        assert ((belief > 0.5) == (known > 0.5)).all()


@given(st.integers(0, 2**31))
def test_logits_of_a_belief_give_it_back(seed):
    draw = generator(seed)
    adjacent = torch.rand((4, 4), generator=draw) * 0.9 + 0.05
    adjacent = torch.minimum(adjacent, adjacent.T)
    theta = torch.randn((4, 4), generator=draw)
    belief = adjacent * torch.sigmoid(theta - theta.T)
    belief.fill_diagonal_(0.0)
    again = logits_of(belief)
    assert torch.allclose(again.theta, -again.theta.T)
    assert torch.allclose(again.belief(), belief, atol=0.03)


def test_sdi_gradients():
    draw = generator(2)
    p = 3
    gamma = torch.randn((p, p), generator=draw, dtype=torch.float64, requires_grad=True)
    probability = torch.sigmoid(gamma)
    pairs = torch.triu(torch.cosh(probability * probability.T), 1).sum()
    (exact,) = torch.autograd.grad(pairs, gamma)
    mine = two_cycle_gradient(probability.detach())
    off = ~torch.eye(p, dtype=torch.bool)
    assert torch.allclose(mine[off], exact[off])
    graphs = every_graph(p)[:8]
    flat = likelihood_gradient(graphs, torch.zeros((8, p)), torch.zeros((p, p)), 10)
    assert torch.allclose(flat, -graphs.float().mean(dim=0))
    sharp = torch.zeros((8, p))
    sharp[3] = -100.0
    best = likelihood_gradient(graphs, sharp, torch.zeros((p, p)), 10)
    assert torch.allclose(best, -graphs[3].float())


def test_sdi_recovers_a_chain():
    regimes = regimes_of(*chain())
    longer = Training(epochs=4, fit_steps=150, graph_steps=80, batch=64, graphs=40, hidden=16)
    belief = learn_belief(
        "sdi", regimes, None, longer, generator(1), prior_weight=0.0, sampled=False
    )
    assert ((belief > 0.5) == np.eye(4, k=1, dtype=bool)).all()
