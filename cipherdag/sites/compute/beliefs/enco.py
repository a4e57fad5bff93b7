"""ENCO and SDI learn edge logits by scoring sampled graphs on interventional rows.

Two stages alternate. Distribution fitting trains every variable's network on observational rows
under graphs drawn from the current belief. Graph fitting draws graphs, evaluates the networks on
rows of one regime at a time, and updates the logits. ENCO updates those of edges and orientations,
by score-function estimators of low variance. SDI updates those of edges alone, towards each edge's
frequency in graphs weighted by likelihood, with a penalty on cycles of two edges.

Sources: Lippe et al., "Efficient neural causal discovery without acyclicity constraints", ICLR
2022; Ke et al., "Learning neural causal models from unknown interventions", arXiv 1910.01075,
sections 3.3 to 3.5: the intervened variable is given here, so none is predicted, and the weights of
the regularisers are ours, since a round is much shorter than their training. The prior term is
Eq. 2 of Abyaneh et al., "FED-CD" (2023).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.mechanisms import Mechanisms
from cipherdag.sites.compute.beliefs.regimes import LEAST_BELIEF, Regimes

GAMMA_RATE, GAMMA_BETAS = 2e-2, (0.9, 0.9)
THETA_RATE, THETA_BETAS = 1e-1, (0.9, 0.999)
NEVER_INTERVENED = 0.1  # share of a step that orients a pair without any intervention
EPSILON = 1e-8
SDI_RATE, SDI_BETAS = 5e-2, (0.9, 0.999)
TWO_CYCLES = 4.0  # weight of the penalty on cycles of two edges
TEMPERATURE = 4.0  # divides the log-likelihoods by which SDI weights graphs


@dataclass(frozen=True, slots=True, eq=False)
class EdgeLogits:
    """i -> j exists with probability sigmoid(gamma_ij) sigmoid(theta_ij); theta_ji = -theta_ij."""

    gamma: Tensor
    theta: Tensor

    def belief(self) -> Tensor:
        """Returns the probability of every edge, shape (p, p), 0 on the diagonal."""
        probability = torch.sigmoid(self.gamma) * torch.sigmoid(self.theta)
        return probability.fill_diagonal_(0.0)


class MaskedAdam:
    """Adam updates the entries of a matrix at different times, each with its step count."""

    def __init__(self, value: Tensor, rate: float, betas: tuple[float, float]) -> None:
        self._value = value
        self._rate, self._betas = rate, betas
        self._first, self._second, self._steps = (torch.zeros_like(value) for _ in range(3))

    def step(self, gradient: Tensor, weight: Tensor) -> None:
        """Updates the entries whose weight is positive, by that fraction of a step."""
        active = (weight > 0).to(gradient.dtype)
        low, high = self._betas
        self._steps += active
        self._first += active * (1 - low) * (gradient - self._first)
        self._second += active * (1 - high) * (gradient**2 - self._second)
        count = self._steps.clamp(min=1.0)
        mean = self._first / (1 - low**count)
        deviation = (self._second / (1 - high**count)).sqrt()
        self._value -= weight * self._rate * mean / (deviation + EPSILON)


def edge_contrasts(graphs: Tensor, nll: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Contrasts the loss of variable j under graphs with i -> j with that under graphs without.

    Takes K graphs, (K, p, p), with losses (K, p) and weights (K,), equal for graphs drawn from the
    belief. Returns P - M, the mean loss with an edge minus that without, (p, p), and a mask of the
    edges for which it is estimated; it is 0 where an edge is in all or in none of the graphs.
    """
    edges = graphs.to(nll.dtype)
    weighted = nll * weights[:, None]
    with_edge = torch.einsum("k,kij->ij", weights, edges)
    without = weights.sum() - with_edge
    total_with = torch.einsum("kij,kj->ij", edges, weighted)
    total_without = weighted.sum(dim=0)[None, :] - total_with
    counts = graphs.sum(dim=0)
    estimable = (counts > 0) & (counts < len(graphs))
    ones = torch.ones_like(with_edge)
    contrast = total_with / torch.where(estimable, with_edge, ones) - total_without / torch.where(
        estimable, without, ones
    )
    return contrast * estimable, estimable


def logit_gradients(
    logits: EdgeLogits, contrast: Tensor, penalty: Tensor, prior: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the gradients of the graph-fitting objective in both logits.

    Both have shape (p, p). ``contrast`` is P - M of `edge_contrasts` on the rows of one regime,
    ``penalty`` the sparsity weight, which as in ENCO does not act on the orientation, and ``prior``
    the derivative of Eq. 2 of Fed-CD in the edge's probability.
    """
    exists, oriented = torch.sigmoid(logits.gamma), torch.sigmoid(logits.theta)
    gamma = exists * (1 - exists) * oriented * (contrast + penalty + prior)
    theta = oriented * (1 - oriented) * exists * (contrast + prior)
    return gamma.fill_diagonal_(0.0), (theta - theta.T).fill_diagonal_(0.0)


class Enco:
    """Learns edge and orientation logits from one site's data by ENCO."""

    def __init__(
        self,
        regimes: Regimes,
        training: Training,
        *,
        start: EdgeLogits,
        prior_penalty: Tensor,
        generator: torch.Generator,
    ) -> None:
        self._regimes, self._training, self._generator = regimes, training, generator
        self._device = regimes.feature_values.device
        self._logits = EdgeLogits(start.gamma.clone(), start.theta.clone())
        self._prior_penalty = prior_penalty
        self._mechanisms = Mechanisms(regimes, hidden=training.hidden, generator=generator)
        self._gamma = MaskedAdam(self._logits.gamma, GAMMA_RATE, GAMMA_BETAS)
        self._theta = MaskedAdam(self._logits.theta, THETA_RATE, THETA_BETAS)
        never = ~regimes.intervened
        self._free_pairs = (never[:, None] & never[None, :]).float().fill_diagonal_(0.0)

    def learn(self) -> EdgeLogits:
        """Runs all epochs; pairs never intervened on are oriented by asymmetry and prior only."""
        training = self._training
        for _ in range(training.epochs):
            belief = self._logits.belief()
            self._mechanisms.fit(belief, steps=training.fit_steps, batch=training.batch)
            for regime in self._order(training.graph_steps):
                self._graph_step(regime)
        return self._logits

    def _order(self, steps: int) -> list[int]:
        """Draws each step's regime, -1 if observational; all come, shuffled, before one recurs."""
        kinds = list(range(len(self._regimes.rows)))
        # only observational rows inform on edges between variables without an intervention
        if not kinds or bool(self._free_pairs.any()):
            kinds.append(-1)
        order: list[int] = []
        while len(order) < steps:
            turn = torch.randperm(len(kinds), generator=self._generator)
            order += [kinds[position] for position in turn.tolist()]
        return order[:steps]

    def _graph_step(self, regime: int) -> None:
        regimes, training = self._regimes, self._training
        p = regimes.n_variables
        rows, target = regimes.regime(regime)
        batch = regimes.draw(rows, training.batch, self._generator)
        uniform = torch.rand((training.graphs, p, p), generator=self._generator)
        graphs = uniform.to(self._device) < self._logits.belief()
        nll = self._mechanisms.nll_of_graphs(graphs, batch).masked_fill(target, 0.0)
        weights = torch.ones(training.graphs, device=self._device)
        contrast, estimable = edge_contrasts(graphs, nll, weights)
        penalty = training.sparsity * estimable
        gamma, theta = logit_gradients(self._logits, contrast, penalty, self._prior_penalty)
        self._gamma.step(gamma * ~target, torch.ones_like(gamma))
        involved = (target[:, None] | target[None, :]).float()
        both = target[:, None] & target[None, :]
        weight = torch.maximum(involved, NEVER_INTERVENED * self._free_pairs)
        self._theta.step(theta, weight.masked_fill(both, 0.0))


def likelihood_gradient(graphs: Tensor, nll: Tensor, probability: Tensor, rows: int) -> Tensor:
    """Computes ``probability`` minus the likelihood-weighted frequency of i -> j (Eq. 3 of SDI).

    ``nll``, (K, p), is the mean negative log-likelihood of ``rows`` rows under each of K graphs,
    bool of shape (K, p, p). The result, (p, p), is the gradient in gamma of its expectation.
    """
    # untempered, the likelihood of a batch would give one graph all the weight
    weights = torch.softmax(-nll * rows / TEMPERATURE, dim=0)
    return probability - torch.einsum("kj,kij->ij", weights, graphs.to(nll.dtype))


def two_cycle_gradient(probability: Tensor) -> Tensor:
    """Computes the gradient in gamma of the sum over pairs of cosh(p_ij p_ji), shape (p, p)."""
    slope = probability * (1 - probability)
    return torch.sinh(probability * probability.T) * probability.T * slope


def learn_sdi(
    regimes: Regimes,
    training: Training,
    *,
    start: Tensor,
    prior_penalty: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Learns the belief sigmoid(gamma) in edges, (p, p), zero on the diagonal, by SDI."""
    device, p = start.device, regimes.n_variables
    gamma = torch.logit(start.clamp(LEAST_BELIEF, 1 - LEAST_BELIEF))
    optimiser = MaskedAdam(gamma, SDI_RATE, SDI_BETAS)
    mechanisms = Mechanisms(regimes, hidden=training.hidden, generator=generator)
    off_diagonal = ~torch.eye(p, dtype=torch.bool, device=device)
    kinds = [*range(len(regimes.rows)), *([] if len(regimes.rows) == p else [-1])]
    for step in range(training.epochs * training.graph_steps):
        belief = torch.sigmoid(gamma) * off_diagonal
        if step % training.graph_steps == 0:
            mechanisms.fit(belief, steps=training.fit_steps, batch=training.batch)
        regime = kinds[int(torch.randint(len(kinds), (1,), generator=generator))]
        rows, target = regimes.regime(regime)
        batch = regimes.draw(rows, training.batch, generator)
        uniform = torch.rand((training.graphs, p, p), generator=generator).to(device)
        graphs = uniform < belief
        nll = mechanisms.nll_of_graphs(graphs, batch)
        gradient = likelihood_gradient(graphs, nll, belief, len(batch))
        slope = belief * (1 - belief)
        gradient += slope * (training.sparsity + prior_penalty)
        gradient += TWO_CYCLES * two_cycle_gradient(belief)
        updated = off_diagonal & ~target
        optimiser.step(gradient * updated, updated.float())
    return torch.sigmoid(gamma) * off_diagonal
