"""DCDI's densities and constraint against independent references, and small recoveries."""

import itertools
import math

import msgspec
import numpy as np
import pytest
import scipy.integrate
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.methods import (
    LARGEST_LOGIT,
    LAST_PENALTY,
    LEAST_PENALTY,
    SLOW_PENALTY,
    Dcdi,
    Penalty,
    cyclicity,
    drawn_masks,
    learn_belief,
    networks_of_regimes,
)
from cipherdag.sites.compute.beliefs.regimes import FLOW, FLOW_LAYERS, FLOW_UNITS, NORMAL, Regimes
from cipherdag.sites.compute.device import PROCESSOR

SHORT = Training(epochs=1, fit_steps=2000, batch=128, hidden=16, sparsity=0.02)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def flow_by_hand(x, parameters):
    """The flow's transform of numbers, in plain probabilities, and the normal density of it."""
    z = np.asarray(x, dtype=float)
    for slopes, offsets, shares in parameters.reshape(FLOW_LAYERS, 3, FLOW_UNITS):
        inner = np.logaddexp(0, slopes) * z[:, None] + offsets
        z = special.logit(special.expit(inner) @ special.softmax(shares))
    return z


@given(st.integers(0, 2**31), st.floats(0.1, 2.0))
def test_the_flow_is_a_density_and_that_of_its_own_transform(seed, spread):
    parameters = spread * np.random.default_rng(seed).standard_normal(FLOW.width)
    own = torch.from_numpy(parameters)

    def density(x):
        return math.exp(-FLOW.nll(torch.tensor(x, dtype=torch.float64), own).item())

    points = np.linspace(-2.0, 2.0, 9)
    # the distribution function is the normal one of the transform: no derivative, no logarithm
    for low, high in itertools.pairwise(points):
        ends = stats.norm.cdf(flow_by_hand([low, high], parameters))
        assert scipy.integrate.quad(density, low, high)[0] == pytest.approx(
            ends[1] - ends[0], abs=1e-7
        )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [NORMAL, FLOW], ids=["normal", "flow"])
def test_a_density_integrates_to_one(kind, seed):
    parameters = torch.randn(kind.width, generator=generator(seed), dtype=torch.float64)
    x = torch.linspace(-400.0, 400.0, 800_001, dtype=torch.float64)
    values = torch.exp(-kind.nll(x, parameters.expand(len(x), -1)))
    assert torch.trapezoid(values, x).item() == pytest.approx(1.0, abs=1e-6)


def test_densities_stay_finite_far_out():
    parameters = 3.0 * torch.randn((50, FLOW.width), generator=generator())
    for x in (-1e3, -50.0, 0.0, 50.0, 1e3):
        values = torch.full((50,), x, requires_grad=True)
        loss = FLOW.nll(values, parameters).sum()
        (slope,) = torch.autograd.grad(loss, values)
        assert torch.isfinite(loss)
        assert torch.isfinite(slope).all()


def test_the_normal_density_is_that_of_scipy():
    drawn = np.random.default_rng(0).normal(size=(3, 40))
    found = NORMAL.nll(torch.from_numpy(drawn[0]), torch.from_numpy(drawn[1:].T.copy()))
    expected = -stats.norm.logpdf(drawn[0], drawn[1], np.exp(drawn[2]))
    assert found.numpy() == pytest.approx(expected)


@given(st.integers(0, 2**31), st.integers(2, 7))
def test_cycles_have_the_slope_of_finite_differences(seed, p):
    belief = torch.rand((p, p), generator=generator(seed), dtype=torch.float64)
    belief.fill_diagonal_(0.0)
    h, slope = cyclicity(belief)
    assert h >= 0
    for i, j in itertools.permutations(range(p), 2):
        ends = []
        for change in (1e-6, -1e-6):
            near = belief.clone()
            near[i, j] += change
            ends.append(cyclicity(near)[0].item())
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope[i, j].item(), rel=1e-5, abs=1e-6)


@given(st.integers(0, 2**31), st.integers(2, 7))
def test_only_acyclic_graphs_have_no_cyclicity(seed, p):
    rng = np.random.default_rng(seed)
    order = rng.permutation(p)
    dag = np.triu(rng.random((p, p)), 1)[np.ix_(order, order)]
    assert abs(cyclicity(torch.from_numpy(dag))[0].item()) < 1e-12 * math.exp(p)
    i, j = rng.choice(p, 2, replace=False)
    dag[i, j] = dag[j, i] = 0.5
    assert cyclicity(torch.from_numpy(dag))[0] > 0.2


@pytest.mark.parametrize("p", [2, 10, 50, 100])
def test_the_price_of_a_lone_cycle_ends_as_said(p):
    penalty = Penalty.over(p, 60)
    complete = torch.ones((p, p), dtype=torch.float64).fill_diagonal_(0.0)
    h, _ = cyclicity(complete)
    assert penalty.slope(h) * penalty.scale == pytest.approx(LEAST_PENALTY)
    prices = np.array(penalty.quadratics)
    assert len(prices) == 60
    assert (np.diff(prices) > 0).all()
    pair = torch.zeros((p, p), dtype=torch.float64)
    pair[0, 1] = pair[1, 0] = 1.0
    lone, _ = cyclicity(pair)
    costs = prices * (lone.item() / penalty.scale) ** 2 / 2
    assert costs[[24, -1]] == pytest.approx([SLOW_PENALTY, LAST_PENALTY], rel=1e-3)
    for _ in range(70):  # the last one stays
        penalty.update(0.0)
    assert 0.5 * penalty.slope(lone) * lone == pytest.approx(LAST_PENALTY, rel=1e-3)
    penalty.update(penalty.scale)
    assert penalty.linear == pytest.approx(prices[-1])


def test_masks_are_drawn_as_believed_and_pass_the_gradient():
    logits = torch.tensor([[0.0, 2.0], [-1.0, 0.5]], requires_grad=True)
    count = 20_000
    masks = drawn_masks(logits, count, generator())
    assert masks.detach().round(decimals=5).unique().tolist() == [0.0, 1.0]
    share = torch.sigmoid(logits.detach())
    gap = (masks.detach().mean(dim=0) - share).abs()
    assert (gap < 5 * (share * (1 - share) / count).sqrt()).all()
    masks.mean(dim=0).sum().backward()
    uniform = torch.rand((count, 2, 2), generator=generator())
    soft = torch.sigmoid(logits.detach() + torch.logit(uniform, eps=1e-6))
    assert torch.allclose(logits.grad, (soft * (1 - soft)).mean(dim=0), atol=1e-4)


# -- whole runs ---------------------------------------------------------------------------------


def world(arcs, weight, *, shape=lambda x: x, imperfect=False, rows=900, seed=0):
    """Rows of a graph with experiments on every variable, a third of them observational."""
    rng = np.random.default_rng(seed)
    p = len(arcs)
    targets = [*[None] * p, *range(p)]
    cells, marks = [], []
    for target in targets:
        own = np.zeros((rows, p))
        for j in range(p):  # an order in which arcs go upwards
            noise = 0.5 * rng.standard_normal(rows)
            parts = sum((weight * shape(own[:, i]) for i in range(p) if arcs[i][j]), 0.0)
            own[:, j] = parts + (noise if np.any(arcs[:, j]) else 2.0 * noise)
            if j == target:
                own[:, j] = 1.0 - 0.5 * parts + noise if imperfect else 2.0 + 2.0 * noise
        cells.append(own)
        marks.append(np.tile(np.arange(p) == (-1 if target is None else target), (rows, 1)))
    return Regimes.of(np.concatenate(cells), (0,) * p, np.concatenate(marks), device=PROCESSOR)


def diamond():
    arcs = np.zeros((4, 4), dtype=bool)
    arcs[0, 1] = arcs[0, 2] = arcs[1, 3] = arcs[2, 3] = True
    return arcs


def learnt(method, regimes, training=SHORT, seed=0, **options):
    return learn_belief(
        method, regimes, None, training, generator(seed), prior_weight=0.0, sampled=False, **options
    )


@pytest.mark.parametrize(("method", "seed"), [("dcdi-g", 0), ("dcdi-dsf", 3)])
def test_a_linear_graph_is_found(method, seed):
    belief = learnt(method, world(diamond(), 0.9, seed=seed), seed=seed)
    assert np.array_equal(belief > 0.5, diamond())
    assert not belief.diagonal().any()


def test_a_nonlinear_graph_is_found():
    regimes = world(diamond(), 1.2, shape=lambda x: np.where(x > 0, x, -0.5 * x), seed=1)
    assert np.array_equal(learnt("dcdi-g", regimes, seed=1) > 0.5, diamond())


def test_a_dense_graph_is_found():
    """Its edges outlive the price of the cycles that others would close with them.

    Of a draw that other steps and rows a step find whole, too: with few steps, and on other
    draws, how a processor rounds decides which edges stand.
    """
    arcs = np.triu(np.ones((6, 6), dtype=bool), 1)
    longer = msgspec.structs.replace(SHORT, fit_steps=12000, batch=256, sparsity=0.01)
    belief = learnt("dcdi-g", world(arcs, 0.5, seed=4), longer, seed=2)
    assert not (belief > 0.5)[~arcs].any()
    assert (belief > 0.5)[arcs].sum() >= 13


@pytest.mark.parametrize("p", [3, 20, 60])
def test_what_is_as_unlikely_as_can_be_closes_no_cycle(p):
    dag = torch.triu(torch.ones((p, p), dtype=torch.bool), 1)
    regimes = Regimes.of(
        np.random.default_rng(0).normal(size=(8, p)), (0,) * p, None, device=PROCESSOR
    )
    dcdi = Dcdi(
        regimes,
        Training(epochs=1, fit_steps=1, batch=2, hidden=2),
        density=NORMAL,
        perfect=True,
        start=dag.float(),
        prior_penalty=torch.zeros((p, p)),
        generator=generator(),
    )
    with torch.no_grad():
        dcdi._logits.copy_(torch.where(dag, LARGEST_LOGIT, -LARGEST_LOGIT))
    assert abs(dcdi._step(Penalty.over(p, 60)).item()) < 1e-9


def test_imperfect_interventions_keep_edges_that_perfect_ones_deny():
    """Two variables with experiments on the effect only, which still follows its cause."""
    rng = np.random.default_rng(0)
    n = 3000
    cause = rng.standard_normal(2 * n)
    noise = 0.5 * rng.standard_normal(2 * n)
    changed = np.arange(2 * n) >= n
    effect = np.where(changed, 2.0 - 1.5 * cause, cause) + noise
    marks = np.stack([np.zeros(2 * n, dtype=bool), changed], axis=1)
    regimes = Regimes.of(np.stack([cause, effect], axis=1), (0, 0), marks, device=PROCESSOR)
    belief = learnt("dcdi-g", regimes, perfect=False)
    assert belief[0, 1] > 0.5 > belief[1, 0]


def test_categories_and_numbers_are_learnt_together():
    rng = np.random.default_rng(0)
    n = 6000
    marks = np.zeros((n, 3), dtype=bool)
    for j in range(3):
        marks[3000 + 1000 * j : 4000 + 1000 * j, j] = True
    dose = rng.integers(0, 3, n)
    level = np.where(marks[:, 1], rng.normal(2.0, 2.0, n), 1.5 * dose + 0.5 * rng.normal(size=n))
    pain = (level + 0.5 * rng.normal(size=n) > 2.0).astype(int)
    pain = np.where(marks[:, 2], rng.integers(0, 2, n), pain)
    cells = np.stack([dose, level, pain], axis=1).astype(float)
    regimes = Regimes.of(cells, (3, 0, 2), marks, device=PROCESSOR)
    assert np.array_equal(learnt("dcdi-g", regimes) > 0.5, np.eye(3, k=1, dtype=bool))


def test_each_imperfect_target_has_a_network_of_its_own():
    marks = np.zeros((8, 3), dtype=bool)
    marks[2:4, 0] = marks[4:, 0] = marks[4:6, 2] = True  # regimes: {0}, {0, 2}
    regimes = Regimes.of(np.arange(24.0).reshape(8, 3), (0, 0, 0), marks, device=PROCESSOR)
    whose, networks = networks_of_regimes(regimes, perfect=False)
    assert whose.tolist() == [0, 1, 2, 0, 0, 2]
    assert networks[-1].tolist() == [0, 1, 2]
    for row, target in zip(networks[:-1], regimes.targets, strict=True):
        assert (row >= 3).tolist() == target.tolist()
        assert whose[row].tolist() == [0, 1, 2]
    whose, networks = networks_of_regimes(regimes, perfect=True)
    assert len(whose) == 3
    assert (networks == torch.arange(3)).all()


def test_the_loss_is_that_of_each_row_on_its_own():
    """Rows that a perfect intervention hit do not count for its target."""
    regimes = world(diamond(), 0.9, rows=20)
    training = Training(epochs=1, fit_steps=1, batch=16, hidden=8)
    p = 4
    dcdi = Dcdi(
        regimes,
        training,
        density=NORMAL,
        perfect=True,
        start=torch.full((p, p), 1.0),
        prior_penalty=torch.zeros((p, p)),
        generator=generator(),
    )
    with torch.no_grad():
        dcdi._logits.fill_(40.0)  # every graph is complete
        rows = torch.arange(len(regimes.feature_index))
        whole = dcdi._loss(rows).item()
        alone = [dcdi._loss(rows[k : k + 1]).item() for k in range(len(rows))]
        assert whole == pytest.approx(np.mean(alone), rel=1e-5)
        # a value that was set moves no likelihood of its own variable: only those of the others
        hit = regimes.rows[0]
        target = int(regimes.targets[0].nonzero())
        before = dcdi._loss(hit).item()
        dcdi._networks.first[:, target] = 0.0  # and nobody listens to it any more
        quiet = dcdi._loss(hit).item()
        regimes.feature_values[hit, target] += 3.0
        assert dcdi._loss(hit).item() == pytest.approx(quiet)
        assert quiet != before


def test_training_repeats_and_a_strong_prior_decides_open_edges():
    rng = np.random.default_rng(0)
    cause = rng.standard_normal(2000)
    cells = np.stack([cause, cause + rng.standard_normal(2000)], axis=1)
    regimes = Regimes.of(cells, (0, 0), None, device=PROCESSOR)
    short = Training(epochs=1, fit_steps=400, batch=64, hidden=8, sparsity=0.01)
    for prior in ([[0.0, 0.95], [0.05, 0.0]], [[0.0, 0.05], [0.95, 0.0]]):
        known = np.array(prior)
        found = [
            learn_belief(
                "dcdi-g", regimes, known, short, generator(), prior_weight=0.05, sampled=False
            )
            for _ in range(2)
        ]
        assert np.array_equal(*found)
        assert np.array_equal(found[0] > 0.5, known > 0.5)
