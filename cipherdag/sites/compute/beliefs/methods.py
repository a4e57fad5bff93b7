"""The local methods of Fed-CD update a matrix of edge beliefs from a site's data.

DCDI trains edge logits and networks together under a constraint of acyclicity. Every row of a batch
has a graph drawn by straight-through Gumbel-sigmoid from the edge probabilities s(alpha), and the
gradient of the likelihood updates networks and logits together. An augmented Lagrangian drives h =
tr exp psi - p to zero, psi being the excess of s(alpha) over its least value: its multipliers start
where the likelihood dominates and end where a 2-cycle costs more than any row could gain by it. A
perfect intervention removes the variable's likelihood from the rows in which it was intervened on;
an imperfect one gives the variable a second network for these rows, with the same parents.

Sources: Abyaneh et al., "FED-CD" (2023), section 4.1, appendix A.2, and Eq. 2 for the prior term;
Brouillard et al., "Differentiable causal discovery from interventional data", NeurIPS 2020, known
targets, DCDI-G and DCDI-DSF. Their program stops by held-out rows; here the number of steps is
declared, and determines multipliers and the logits' rate. The likelihood of categories is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cipherdag.arrays import FloatMatrix
from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.enco import EdgeLogits, Enco, learn_sdi
from cipherdag.sites.compute.beliefs.mechanisms import Networks
from cipherdag.sites.compute.beliefs.regimes import FLOW, LEAST_BELIEF, NORMAL, Density, Regimes

WEIGHT_RATE, LAST_WEIGHT_RATE = 1e-2, 5e-4  # learning rates of the networks, first and last
LOGIT_RATE, LOGIT_RANGE = 6e-2, 60.0  # largest rate of the logits, and rate times steps
UPDATES = 60  # of the multipliers
LEAST_PENALTY, SLOW_PENALTY, LAST_PENALTY = 1e-2, 1e-2, 1e1  # see `Penalty.over`
FAST_FRACTION = 0.4  # of the updates, until a 2-cycle costs `SLOW_PENALTY`
WARM_UP = 0.1  # share of the steps in which the networks alone learn
LARGEST_SLOPE = 10.0  # of the penalty on cycles
LARGEST_LOGIT = 4.6  # of an edge, either way
SMALLEST_PROBABILITY = 1.0 / (1.0 + math.exp(LARGEST_LOGIT - 1e-3))
DENSITIES = {"dcdi-g": NORMAL, "dcdi-dsf": FLOW}


def cyclicity(belief: Tensor) -> tuple[Tensor, Tensor]:
    """Computes h = tr exp(belief) - p, which is 0 for DAGs only, and its gradient, shape (p, p)."""
    exponential = torch.linalg.matrix_exp(belief)
    return exponential.trace() - len(belief), exponential.T


def drawn_masks(logits: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws graphs by straight-through Gumbel-sigmoid, shape (count, p, p), 0 or 1."""
    uniform = torch.rand((count, *logits.shape), generator=generator).to(logits.device)
    soft = torch.sigmoid(logits + torch.logit(uniform, eps=1e-6))
    return (soft > 0.5).float() + soft - soft.detach()  # noqa: PLR2004


@dataclass(slots=True)
class Penalty:
    """The augmented Lagrangian penalises cycles by these multipliers.

    ``scale``, h of the complete graph, is the unit of h. Each subproblem has one of ``quadratics``,
    which multiplies half the square of h in that unit.
    """

    scale: float
    quadratics: tuple[float, ...]
    linear: float = 0.0
    updates: int = 0

    @classmethod
    def over(cls, n_variables: int, updates: int) -> Penalty:
        """Schedules multipliers: one 2-cycle costs `LAST_PENALTY` nats in the end.

        They grow geometrically to where it costs `SLOW_PENALTY` in a fraction `FAST_FRACTION` of
        the updates, and more slowly afterwards, when edges are oriented.
        """
        complete = torch.ones((n_variables,) * 2, dtype=torch.float64).fill_diagonal_(0.0)
        scale = float(cyclicity(complete)[0])
        lone = (2.0 * math.cosh(1.0) - 2.0) / scale
        slow_from, last = (2.0 * penalty / lone**2 for penalty in (SLOW_PENALTY, LAST_PENALTY))
        early = round(FAST_FRACTION * updates)
        rising = np.geomspace(LEAST_PENALTY, slow_from, early, endpoint=False)
        slow = np.geomspace(slow_from, last, updates - early)
        return cls(scale=scale, quadratics=(*rising.tolist(), *slow.tolist()))

    def slope(self, h: Tensor) -> Tensor:
        """Returns the derivative of the penalty in h."""
        return (self.linear + self._quadratic * h / self.scale) / self.scale

    def update(self, h: float) -> None:
        """Updates the multipliers at the end of a subproblem."""
        self.linear += self._quadratic * h / self.scale
        self.updates += 1

    @property
    def _quadratic(self) -> float:
        return self.quadratics[min(self.updates, len(self.quadratics) - 1)]


class Dcdi:
    """Learns edge probabilities from one site's data by DCDI, in epochs times fit_steps steps."""

    def __init__(
        self,
        regimes: Regimes,
        training: Training,
        *,
        density: Density,
        perfect: bool,
        start: Tensor,
        prior_penalty: Tensor,
        generator: torch.Generator,
    ) -> None:
        self._regimes, self._training, self._generator = regimes, training, generator
        self._density, self._prior_penalty = density, prior_penalty
        p, device = regimes.n_variables, regimes.feature_values.device
        self._off_diagonal = ~torch.eye(p, dtype=torch.bool, device=device)
        self._logits = torch.logit(start.clamp(LEAST_BELIEF, 1 - LEAST_BELIEF)).requires_grad_()
        self._whose, self._network_of = networks_of_regimes(regimes, perfect=perfect)
        self._regime_of, self._counts = _by_row(regimes, perfect=perfect)
        self._source = torch.repeat_interleave(torch.arange(p, device=device), regimes.widths)
        self._networks = Networks(
            regimes, training.hidden, generator, number=len(self._whose), density=density
        )
        self._log_sd = torch.zeros((len(self._whose), 1, 1), device=device, requires_grad=True)
        weights = [*self._networks.weights, self._log_sd]
        self._optimiser = torch.optim.RMSprop(
            [{"params": weights, "lr": WEIGHT_RATE}, {"params": [self._logits], "lr": LOGIT_RATE}]
        )

    def learn(self) -> Tensor:
        """Runs all steps of training; returns the belief s(alpha), (p, p), zero on the diagonal."""
        steps = self._training.epochs * self._training.fit_steps
        window = max(1, steps // UPDATES)
        penalty = Penalty.over(self._regimes.n_variables, steps // window)
        weights, logits = self._optimiser.param_groups
        # bounds the total change of a logit: networks must adapt to the graphs that are drawn
        rate = min(LOGIT_RATE, LOGIT_RANGE / steps)
        for step in range(1, steps + 1):
            # an edge that no network uses yet would be removed by its penalty alone
            logits["lr"] = rate if step > WARM_UP * steps else 0.0
            # the noise of the last weight updates would otherwise count as a gain by edges
            weights["lr"] = WEIGHT_RATE + (LAST_WEIGHT_RATE - WEIGHT_RATE) * step / steps
            h = self._step(penalty)
            if step % window == 0:
                penalty.update(float(h))
        return self._belief().float()

    def _belief(self) -> Tensor:
        return torch.sigmoid(self._logits.detach().double()) * self._off_diagonal

    def _step(self, penalty: Penalty) -> Tensor:
        every = torch.arange(len(self._regime_of), device=self._regime_of.device)
        rows = self._regimes.draw(every, self._training.batch, self._generator)
        self._optimiser.zero_grad()
        self._loss(rows).backward()  # type: ignore[no-untyped-call]
        belief = self._belief()
        # the smallest probability counts as no edge: thousands of them would penalise a dense DAG
        h, slope = cyclicity((belief - SMALLEST_PROBABILITY).clamp(min=0.0))
        # a steeper penalty would only dominate the gradient of the likelihood
        cycles = (penalty.slope(h) * slope).clamp(max=LARGEST_SLOPE)
        cost = cycles + self._training.sparsity + self._prior_penalty
        gradient = self._logits.grad
        assert gradient is not None, "the loss depends on the logits"
        gradient += (belief * (1 - belief) * cost).to(gradient.dtype)
        gradient *= self._off_diagonal
        self._optimiser.step()
        with torch.no_grad():  # beyond, an edge would need too many steps to return
            self._logits.clamp_(-LARGEST_LOGIT, LARGEST_LOGIT)
        return h

    def _loss(self, rows: Tensor) -> Tensor:
        """Computes the mean negative log-likelihood of variables without an intervention."""
        masks = drawn_masks(self._logits, len(rows), self._generator) * self._off_diagonal
        inputs = masks.permute(2, 0, 1)[self._whose]
        seen = self._regimes.features(rows) * inputs[:, :, self._source]
        outputs = self._networks.of_rows(seen)
        if self._density is NORMAL:
            outputs = self._with_deviations(outputs)
        which = self._network_of[self._regime_of[rows]].T
        outputs = outputs.gather(0, which[..., None].expand(-1, -1, outputs.shape[2]))
        nll = self._regimes.nll(outputs, rows, self._density)
        return (nll * self._counts[rows].T).sum() / len(rows)

    def _with_deviations(self, outputs: Tensor) -> Tensor:
        """Replaces the log deviations, which no parents determine in the published program."""
        second = torch.arange(outputs.shape[2], device=outputs.device) == 1
        is_deviation = self._regimes.continuous[self._whose][:, None, None] & second
        return torch.where(is_deviation, self._log_sd, outputs)


def networks_of_regimes(regimes: Regimes, *, perfect: bool) -> tuple[Tensor, Tensor]:
    """Assigns a variable to every network, shape (N,), and networks to regimes, (R + 1, p).

    The first p networks are those of the observational regime, which is the last one. An imperfect
    intervention has a further network for every variable that it targets.
    """
    p, device = regimes.n_variables, regimes.feature_values.device
    variables = torch.arange(p, device=device)
    networks = variables.repeat(len(regimes.rows) + 1, 1)
    if perfect:
        return variables, networks
    pairs = regimes.targets.nonzero()
    networks[pairs[:, 0], pairs[:, 1]] = p + torch.arange(len(pairs), device=device)
    return torch.cat([variables, pairs[:, 1]]), networks


def _by_row(regimes: Regimes, *, perfect: bool) -> tuple[Tensor, Tensor]:
    """Returns the regime of every row, (n,), and the mask of the likelihood's terms, (n, p)."""
    n, p = regimes.feature_index.shape
    which = torch.full((n,), len(regimes.rows), device=regimes.feature_index.device)
    counts = torch.ones((n, p), device=regimes.feature_index.device)
    for number, rows in enumerate(regimes.rows):
        which[rows] = number
        if perfect:
            counts[rows] = (~regimes.targets[number]).float()
    return which, counts


DENSE = 0.95
"""Initial edge probability of DCDI; from a lower one, edges that help only jointly are lost."""


def learn_belief(
    method: str,
    regimes: Regimes,
    prior: FloatMatrix | None,
    training: Training,
    generator: torch.Generator,
    *,
    prior_weight: float,
    sampled: bool,
    perfect: bool = True,
) -> FloatMatrix:
    """Runs one round of a local method; returns the new psi, (p, p), zero on the diagonal.

    ``prior`` is the psi of the last round, None in the first, and ``prior_weight`` the lambda_prior
    of Eq. 2. If ``sampled``, training starts from a draw of Ber(psi) instead of psi: from 0.75 for
    a 1 and 0.25 for a 0, so that it can reverse the draw. DCDI alone models imperfect
    interventions.
    """
    device = regimes.feature_values.device
    p = regimes.n_variables
    start = torch.full((p, p), DENSE if method in DENSITIES else 0.25)
    penalty = torch.zeros((p, p))
    if prior is not None:
        psi = torch.from_numpy(prior).float()
        start = 0.25 + 0.5 * torch.bernoulli(psi, generator=generator) if sampled else psi
        penalty = -prior_weight * torch.logit(psi, LEAST_BELIEF)
    start, penalty = start.to(device), penalty.fill_diagonal_(0.0).to(device)
    if method == "sdi":
        learnt = learn_sdi(
            regimes, training, start=start, prior_penalty=penalty, generator=generator
        )
    elif method == "enco":
        enco = Enco(
            regimes, training, start=logits_of(start), prior_penalty=penalty, generator=generator
        )
        learnt = enco.learn().belief()
    else:
        dcdi = Dcdi(
            regimes,
            training,
            density=DENSITIES[method],
            perfect=perfect,
            start=start,
            prior_penalty=penalty,
            generator=generator,
        )
        learnt = dcdi.learn()
    return learnt.cpu().double().numpy()


def learn_logits(
    regimes: Regimes, prior: FloatMatrix | None, training: Training, generator: torch.Generator
) -> FloatMatrix:
    """Runs one round of ENCO from logits to logits, as the published program does.

    Both are gamma and theta, shape (2, p, p), zero on the diagonals; None before the first round.
    """
    device = regimes.feature_values.device
    p = regimes.n_variables
    logits = torch.zeros((2, p, p)) if prior is None else torch.from_numpy(prior).float()
    enco = Enco(
        regimes,
        training,
        start=EdgeLogits(logits[0].to(device), logits[1].to(device)),
        prior_penalty=torch.zeros((p, p), device=device),
        generator=generator,
    )
    learnt = enco.learn()
    both = torch.stack([learnt.gamma, learnt.theta]).cpu().double().numpy()
    both[:, np.arange(p), np.arange(p)] = 0.0
    return np.asarray(both)


def logits_of(belief: Tensor) -> EdgeLogits:
    """Returns logits whose belief is ``belief``, as far as an antisymmetric theta allows.

    The sum of psi_ij and psi_ji is the probability that the pair is adjacent, and psi_ij over this
    sum the probability of its orientation; both are bounded away from 0 and 1. A sum above 1, which
    no logits have, is clipped.
    """
    adjacent = (belief + belief.T).clamp(LEAST_BELIEF, 1 - LEAST_BELIEF)
    forward = (belief + LEAST_BELIEF) / (belief + belief.T + 2 * LEAST_BELIEF)
    theta = torch.logit(forward.clamp(LEAST_BELIEF, 1 - LEAST_BELIEF))
    return EdgeLogits(torch.logit(adjacent), 0.5 * (theta - theta.T))
