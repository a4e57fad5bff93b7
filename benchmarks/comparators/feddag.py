"""FedDAG: masked neural models per site whose masks and weights are averaged.

Sources: Gao, Chen, Shen, Liu, Gong and Bondell, "FedDAG: federated DAG structure learning", TMLR
2023 (AS-FedDAG: all parameters shared, for sites of one distribution); Ng et al., "Masked
gradient-based causal structure learning", SDM 2022 (the mask and the model).
Parameters are the published program's defaults. Ours: every site standardises its own columns, so
that one learning rate serves all data.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import leaky_relu

from cipherdag.graphs.graph import CausalGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.sites.table.site_table import SiteTable

SLOPE = 0.05


@dataclass(frozen=True)
class FedDag:
    """Parameters of AS-FedDAG.

    Attributes:
        temperature: Of the Gumbel-sigmoid mask.
        l1: Weight of the sum of the mask.
        hidden: Width of a hidden layer; layers: their number.
        rate: Adam's learning rate.
        steps: Gradient steps per subproblem; share: steps between two averages.
        max_iter: Most subproblems' outer iterations.
        least_iter: Outer iterations before the run may end.
        rho: First penalty; growth, progress, rho_max: how it grows.
        h_tol: The run ends when the mask is as acyclic.
        threshold: Of the mask's probability.
        seed: Of weights and masks.
    """

    temperature: float = 0.2
    l1: float = 2e-3
    hidden: int = 16
    layers: int = 4
    rate: float = 3e-2
    steps: int = 1000
    share: int = 200
    max_iter: int = 25
    least_iter: int = 3
    rho: float = 1e-3
    growth: float = 5.0
    progress: float = 0.25
    rho_max: float = 1e14
    h_tol: float = 1e-10
    threshold: float = 0.5
    seed: int = 1


def feddag(sites: Sequence[SiteTable], parameters: FedDag) -> list[CausalGraph]:
    """The DAG that the averaged mask says; the published rule does not check that it is one."""
    models = Models(sites, parameters)
    alpha, rho, h = 0.0, parameters.rho, np.inf
    for iteration in range(1, parameters.max_iter + 1):
        h_new = h
        while rho < parameters.rho_max:
            h_new = models.train(alpha, rho)
            if h_new <= parameters.progress * h:
                break
            rho *= parameters.growth
        settled = max(h_new, models.certain_acyclicity()) <= parameters.h_tol
        if rho >= parameters.rho_max or (settled and iteration > parameters.least_iter):
            break
        h = h_new
        alpha += rho * h
    return [CausalGraph.from_arcs(sites[0].names, models.probabilities() > parameters.threshold)]


class Models:
    """The models of K sites over d variables, stacked: they differ in rows and noise only."""

    def __init__(self, sites: Sequence[SiteTable], parameters: FedDag) -> None:
        self._own = parameters
        self._random = torch.Generator().manual_seed(parameters.seed)
        tables = [standardised(table) for table in sites]
        longest, d = max(len(rows) for rows in tables), tables[0].shape[1]
        self._rows = torch.zeros(len(tables), longest, d)
        self._weight = torch.zeros(len(tables), 1, longest)
        for k, rows in enumerate(tables):
            self._rows[k, : len(rows)] = torch.from_numpy(rows).float()
            self._weight[k, :, : len(rows)] = 0.5 / len(rows)
        self._logits = torch.zeros(len(tables), d, d)
        widths = [d, *[parameters.hidden] * parameters.layers, 1]
        shapes = list(pairwise(widths))
        # all sites begin with the same weights
        self._layers = [self._glorot(d, *shape).repeat(len(tables), 1, 1, 1) for shape in shapes]
        self._biases = [torch.zeros(len(tables), d, 1, shape[1]) for shape in shapes]
        self.parameters = [self._logits, *self._layers, *self._biases]
        for own in self.parameters:
            own.requires_grad_()

    def train(self, alpha: float, rho: float) -> float:
        """One subproblem; the acyclicity of the first site's last mask."""
        adam = torch.optim.Adam(self.parameters, lr=self._own.rate)
        h = torch.zeros(1)
        for step in range(1, self._own.steps + 1):
            adam.zero_grad()
            mask = self._mask()
            h = acyclicity(mask)
            penalty = self._own.l1 * mask.sum() + (alpha * h + 0.5 * rho * h * h).sum()
            (self.site_errors(mask).sum() + penalty).backward()
            adam.step()
            if step % self._own.share == 0 or step == self._own.steps:
                with torch.no_grad():
                    for own in self.parameters:
                        own.copy_(own.mean(dim=0, keepdim=True).expand_as(own))
        return float(h[0].detach())

    def probabilities(self) -> np.ndarray:
        """Of every edge, shape (d, d)."""
        with torch.no_grad():
            return off_diagonal(torch.sigmoid(self._logits[0] / self._own.temperature)).numpy()

    def certain_acyclicity(self) -> float:
        """Acyclicity of the mask without noise."""
        return float(acyclicity(torch.from_numpy(self.probabilities())[None])[0])

    def _mask(self):
        uniform = torch.rand(self._logits.shape, generator=self._random).clamp(1e-7, 1 - 1e-7)
        noisy = (self._logits + torch.logit(uniform)) / self._own.temperature
        return off_diagonal(torch.sigmoid(noisy))

    def site_errors(self, mask):
        """Half the mean squared errors of the variables from masked others, by site, shape (K,)."""
        first, *others = zip(self._layers, self._biases, strict=True)
        masked = mask.transpose(1, 2)[..., None] * first[0]  # [k, effect, cause, unit]
        value = self._rows[:, None] @ masked + first[1]
        for layer, bias in others:
            value = leaky_relu(value, SLOPE) @ layer + bias
        apart = (value[..., 0] - self._rows.transpose(1, 2)) ** 2
        return (apart * self._weight).sum(dim=(1, 2))

    def _glorot(self, d: int, inside: int, outside: int):
        size = (6.0 / (inside + outside)) ** 0.5
        drawn = torch.rand(1, d, inside, outside, generator=self._random)
        return (2.0 * drawn - 1.0) * size


def acyclicity(mask):
    """tr exp(M o M) - d of every site, shape (K,)."""
    trace = torch.matrix_exp(mask * mask).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    return trace - mask.shape[-1]


def off_diagonal(matrix):
    return matrix * (1.0 - torch.eye(matrix.shape[-1]))


def standardised(table: SiteTable) -> np.ndarray:
    """The site's columns with mean 0 and deviation 1; constant ones are 0."""
    values = table.codes.astype(float) if table.values is None else table.values
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
