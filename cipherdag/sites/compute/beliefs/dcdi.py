"""DCDI: edge logits and networks trained together on all rows, under a constraint of acyclicity.

Every row of a batch sees a graph of its own, drawn by straight-through Gumbel-sigmoid from the edge
probabilities s(alpha), and the likelihood's gradient moves networks and logits at once. An
augmented Lagrangian drives h = tr exp psi - p to zero, psi being what s(alpha) is above the least
that logits can say: its price starts where the likelihood alone counts and ends where a cycle of
two costs more than any row could gain by it.

An intervention that is perfect takes the variable's likelihood out of the rows in which it was
intervened on; one that is imperfect gives the variable a second network for these rows, with the
same parents.

Source: Brouillard et al., "Differentiable causal discovery from interventional data", NeurIPS 2020,
known targets, DCDI-G and DCDI-DSF. Theirs ends when held-out rows say so; here the steps are
declared, and the price and the logits' rate fit into them. The likelihood of categories is ours.
The prior term is Eq. 2 of Abyaneh et al., "FED-CD" (2023).

Leaks:
    Nothing: beliefs stay inside the site until they are protected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cipherdag.questions.local_beliefs import Training
from cipherdag.sites.compute.beliefs.mechanisms import Networks
from cipherdag.sites.compute.beliefs.regimes import FLOW, LEAST_BELIEF, NORMAL, Density, Regimes

WEIGHT_RATE, LAST_WEIGHT_RATE = 1e-2, 5e-4
LOGIT_RATE, TRAVEL = 6e-2, 60.0
UPDATES = 60
LEAST_PRICE, FELT, LAST_PRICE = 1e-2, 1e-2, 1e1
EARLY = 0.4
ALONE = 0.1
STEEPEST = 10.0
FURTHEST = 4.6
NEAREST = 1.0 / (1.0 + math.exp(FURTHEST - 1e-3))
DENSITIES = {"dcdi-g": NORMAL, "dcdi-dsf": FLOW}


def cyclicity(belief: Tensor) -> tuple[Tensor, Tensor]:
    """How far from acyclic: h = tr exp(belief) - p, 0 for DAGs only, and its slope, shape (p, p).

    Args:
        belief: Probability of every edge, float64 of shape (p, p).
    """
    exponential = torch.linalg.matrix_exp(belief)
    return exponential.trace() - len(belief), exponential.T


def drawn_masks(logits: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Graphs whose gradient is that of the Gumbel-sigmoid, shape (count, p, p), 0 or 1."""
    uniform = torch.rand((count, *logits.shape), generator=generator).to(logits.device)
    soft = torch.sigmoid(logits + torch.logit(uniform, eps=1e-6))
    return (soft > 0.5).float() + soft - soft.detach()  # noqa: PLR2004


@dataclass(slots=True)
class Price:
    """The augmented Lagrangian's price of cycles.

    Attributes:
        scale: h of the complete graph: h is counted in its units.
        quadratics: Prices of half a squared unit of h, one after the other.
        linear: Price of a unit of h.
        updates: How often the price has grown.
    """

    scale: float
    quadratics: tuple[float, ...]
    linear: float = 0.0
    updates: int = 0

    @classmethod
    def over(cls, n_variables: int, updates: int) -> Price:
        """One that grows slowly where a lone cycle of two costs `FELT` to `LAST_PRICE` nats.

        Before that it grows by what the rest of the updates leaves; the directions of edges are
        settled in the slow part, all of which could otherwise pass in a few steps.
        """
        complete = torch.ones((n_variables,) * 2, dtype=torch.float64).fill_diagonal_(0.0)
        scale = float(cyclicity(complete)[0])
        lone = (2.0 * math.cosh(1.0) - 2.0) / scale
        felt, last = (2.0 * price / lone**2 for price in (FELT, LAST_PRICE))
        early = round(EARLY * updates)
        rising = np.geomspace(LEAST_PRICE, felt, early, endpoint=False)
        slow = np.geomspace(felt, last, updates - early)
        return cls(scale=scale, quadratics=(*rising.tolist(), *slow.tolist()))

    def slope(self, h: Tensor) -> Tensor:
        """Derivative of the price in h."""
        return (self.linear + self._quadratic * h / self.scale) / self.scale

    def update(self, h: float) -> None:
        """The end of a subproblem."""
        self.linear += self._quadratic * h / self.scale
        self.updates += 1

    @property
    def _quadratic(self) -> float:
        return self.quadratics[min(self.updates, len(self.quadratics) - 1)]


class Dcdi:
    """DCDI over one site's data.

    Args:
        regimes: The data.
        training: Epochs times fit_steps is the number of steps; graph_steps and graphs do not
            count.
        density: Of numbers.
        perfect: Whether interventions are perfect.
        start: Where the beliefs begin, shape (p, p).
        prior_price: Derivative of the prior term in every edge's probability, shape (p, p).
        generator: Source of randomness, on the CPU.
    """

    def __init__(
        self,
        regimes: Regimes,
        training: Training,
        *,
        density: Density,
        perfect: bool,
        start: Tensor,
        prior_price: Tensor,
        generator: torch.Generator,
    ) -> None:
        self._regimes, self._training, self._generator = regimes, training, generator
        self._density, self._prior_price = density, prior_price
        p, device = regimes.n_variables, regimes.amounts.device
        self._off_diagonal = ~torch.eye(p, dtype=torch.bool, device=device)
        self._logits = torch.logit(start.clamp(LEAST_BELIEF, 1 - LEAST_BELIEF)).requires_grad_()
        self._whose, self._network_of = networks_of_regimes(regimes, perfect=perfect)
        self._regime_of, self._counts = _by_row(regimes, perfect=perfect)
        self._source = torch.repeat_interleave(torch.arange(p, device=device), regimes.widths)
        self._networks = Networks(
            len(self._whose),
            regimes.n_features,
            training.hidden,
            regimes.n_outputs(density),
            spread=2.0 / math.sqrt(p),
            device=device,
            generator=generator,
        )
        self._log_sd = torch.zeros((len(self._whose), 1, 1), device=device, requires_grad=True)
        weights = [*self._networks.weights, self._log_sd]
        self._optimiser = torch.optim.RMSprop(
            [{"params": weights, "lr": WEIGHT_RATE}, {"params": [self._logits], "lr": LOGIT_RATE}]
        )

    def learn(self) -> Tensor:
        """Run all steps.

        Returns:
            The belief s(alpha), shape (p, p), zero on the diagonal.
        """
        steps = self._training.epochs * self._training.fit_steps
        window = max(1, steps // UPDATES)
        price = Price.over(self._regimes.n_variables, steps // window)
        weights, logits = self._optimiser.param_groups
        # so many logits in all: networks must keep up with the graphs that they see
        rate = min(LOGIT_RATE, TRAVEL / steps)
        for step in range(1, steps + 1):
            # an edge whose use no network has learnt yet would fall to its price alone
            logits["lr"] = rate if step > ALONE * steps else 0.0
            # the noise of a network's last steps would otherwise count as what edges gain
            weights["lr"] = WEIGHT_RATE + (LAST_WEIGHT_RATE - WEIGHT_RATE) * step / steps
            h = self._step(price)
            if step % window == 0:
                price.update(float(h))
        return self._belief().float()

    def _belief(self) -> Tensor:
        return torch.sigmoid(self._logits.detach().double()) * self._off_diagonal

    def _step(self, price: Price) -> Tensor:
        every = torch.arange(len(self._regime_of), device=self._regime_of.device)
        rows = self._regimes.draw(every, self._training.batch, self._generator)
        self._optimiser.zero_grad()
        self._loss(rows).backward()  # type: ignore[no-untyped-call]
        belief = self._belief()
        # as unlikely as a logit can say is no edge: a dense DAG would be dear by thousands of them
        h, slope = cyclicity((belief - NEAREST).clamp(min=0.0))
        # beyond it, where one cycle is dear already, a step would only drown the likelihood's
        cycles = (price.slope(h) * slope).clamp(max=STEEPEST)
        cost = cycles + self._training.sparsity + self._prior_price
        gradient = self._logits.grad
        assert gradient is not None, "the loss depends on the logits"
        gradient += (belief * (1 - belief) * cost).to(gradient.dtype)
        gradient *= self._off_diagonal
        self._optimiser.step()
        with torch.no_grad():  # from further out an edge would need too long to come back
            self._logits.clamp_(-FURTHEST, FURTHEST)
        return h

    def _loss(self, rows: Tensor) -> Tensor:
        """Mean over the rows of the negative log-likelihood of what was not intervened on."""
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
        """The deviation of a number does not depend on its parents, as in the published program."""
        second = torch.arange(outputs.shape[2], device=outputs.device) == 1
        is_deviation = self._regimes.continuous[self._whose][:, None, None] & second
        return torch.where(is_deviation, self._log_sd, outputs)


def networks_of_regimes(regimes: Regimes, *, perfect: bool) -> tuple[Tensor, Tensor]:
    """Whose conditional every network is, shape (N,), and each regime's networks, (R + 1, p).

    The first p networks are those of the observational regime, which is the last one. An imperfect
    intervention has a further network for every variable that it targets.
    """
    p, device = regimes.n_variables, regimes.amounts.device
    variables = torch.arange(p, device=device)
    networks = variables.repeat(len(regimes.rows) + 1, 1)
    if perfect:
        return variables, networks
    places = regimes.targets.nonzero()
    networks[places[:, 0], places[:, 1]] = p + torch.arange(len(places), device=device)
    return torch.cat([variables, places[:, 1]]), networks


def _by_row(regimes: Regimes, *, perfect: bool) -> tuple[Tensor, Tensor]:
    """The regime of every row, (n,), and whether each variable's likelihood counts, (n, p)."""
    n, p = regimes.places.shape
    which = torch.full((n,), len(regimes.rows), device=regimes.places.device)
    counts = torch.ones((n, p), device=regimes.places.device)
    for number, rows in enumerate(regimes.rows):
        which[rows] = number
        if perfect:
            counts[rows] = (~regimes.targets[number]).float()
    return which, counts
