"""Regimes group one site's rows, as torch tensors, by the intervened variables.

A regime is a set of rows with the same intervened variables; the rows with none are observational.
Rows with a missing value in any variable are left out: the networks take complete rows. So is a
regime of fewer rows than the smallest count that may be disclosed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from cipherdag.errors import TooFewRowsError
from cipherdag.sites.compute.device import Device

log = logging.getLogger("cipherdag.site")

LEAST_SPREAD = 1e-8  # a column of a smaller deviation is not scaled
LEAST_BELIEF = 0.01  # beliefs stay this far from 0 and 1, so that data can overcome a prior
LOG_SD_BOUND = 4.0  # of a predicted log deviation, either way
FLOW_LAYERS, FLOW_UNITS = 2, 10  # of the deep sigmoidal flow


@dataclass(frozen=True, slots=True)
class Density:
    """A density of a continuous variable: ``nll`` of values (...), parameters (..., width)."""

    width: int
    nll: Callable[[Tensor, Tensor], Tensor]


def normal_nll(values: Tensor, parameters: Tensor) -> Tensor:
    """Computes -ln density under a normal distribution with a mean and a log deviation."""
    log_sd = parameters[..., 1].clamp(-LOG_SD_BOUND, LOG_SD_BOUND)
    deviation = (values - parameters[..., 0]) * torch.exp(-log_sd)
    return 0.5 * deviation**2 + log_sd + 0.5 * math.log(2 * math.pi)


def flow_nll(values: Tensor, parameters: Tensor) -> Tensor:
    """Computes -ln density where layers of logit(sum_u w_u s(a_u x + b_u)) make x normal.

    This is the deep sigmoidal flow of Huang, Krueger, Lacoste and Courville, ICML 2018.

    ``parameters`` have for every layer the slopes before softplus, the offsets b, and the weights
    before softmax, each of `FLOW_UNITS`, shape (..., 3 layers units).
    """
    log_slope = torch.zeros_like(values)
    layers = parameters.reshape(*parameters.shape[:-1], FLOW_LAYERS, 3, FLOW_UNITS)
    for layer in layers.unbind(dim=-3):
        slope, offset, weight = layer.unbind(dim=-2)
        slope = functional.softplus(slope)
        inner = slope * values[..., None] + offset
        log_weight = functional.log_softmax(weight, dim=-1)
        low, high = functional.logsigmoid(-inner), functional.logsigmoid(inner)
        below = torch.logsumexp(log_weight + high, dim=-1)
        above = torch.logsumexp(log_weight + low, dim=-1)
        inside = torch.logsumexp(log_weight + low + high + slope.log(), dim=-1)
        log_slope = log_slope + inside - below - above
        values = below - above
    return 0.5 * values**2 + 0.5 * math.log(2 * math.pi) - log_slope


NORMAL = Density(2, normal_nll)
FLOW = Density(3 * FLOW_LAYERS * FLOW_UNITS, flow_nll)


@dataclass(frozen=True, slots=True, eq=False)
class Regimes:
    """The complete rows of p variables are tensors on one device, grouped by regime.

    Attributes:
        feature_index: Index of each cell among the W one-hot features of a row, int64 of shape (n,
            p); a continuous variable has one feature.
        feature_values: Value of that feature, float32 of shape (n, p): 1 for a category, the
            standardised number for a continuous variable.
        first, widths: First feature of every variable, and how many it has, shape (p,).
        observational: Positions of the rows without an intervention.
        targets: The intervened variables of every other regime, bool of shape (R, p), and ``rows``
            the positions of its rows.
    """

    feature_index: Tensor
    feature_values: Tensor
    first: Tensor
    widths: Tensor
    continuous: Tensor
    observational: Tensor
    targets: Tensor
    rows: tuple[Tensor, ...]

    @classmethod
    def of(
        cls,
        cells: NDArray[np.float64],
        cardinalities: tuple[int, ...],
        interventions: NDArray[np.bool_] | None,
        *,
        device: Device,
        least: int = 1,
    ) -> Regimes:
        """Groups a table's complete rows by regime; interventional ones need ``least`` rows.

        Cells are codes, or numbers where the cardinality is 0, NaN where missing; both they and
        ``interventions``, which cells were set, have shape (n, p). TooFewRowsError where fewer than
        two whole rows are observational.
        """
        cards = np.array(cardinalities, dtype=np.int64)
        whole = ~np.isnan(cells).any(axis=1)
        cells = cells[whole]
        targets = np.zeros(cells.shape, dtype=bool)
        if interventions is not None:
            targets = interventions[whole]
        free = ~targets.any(axis=1)
        if free.sum() < 2:  # noqa: PLR2004
            raise TooFewRowsError(
                "fewer than two whole rows are observational; the networks learn from these",
                rows=int(free.sum()),
            )
        continuous = cards == 0
        centre, spread = cells[free].mean(axis=0), cells[free].std(axis=0)
        standard = (cells - centre) / np.where(spread > LEAST_SPREAD, spread, 1.0)
        widths = np.where(continuous, 1, cards)
        first = np.cumsum(widths) - widths
        manipulated = np.flatnonzero(~free)
        kinds, which = np.unique(targets[manipulated], axis=0, return_inverse=True)
        rows = [manipulated[which.ravel() == kind] for kind in range(len(kinds))]
        enough = [len(positions) >= least for positions in rows]
        if few := [len(positions) for positions in rows if len(positions) < least]:
            log.warning(
                "%d experiments have fewer rows than min_cell_size, %d in all; beliefs leave them "
                "out",
                len(few),
                sum(few),
            )
        return cls(
            feature_index=_int64(first + np.where(continuous, 0, cells), device),
            feature_values=torch.from_numpy(np.where(continuous, standard, 1.0)).float().to(device),
            first=_int64(first, device),
            widths=_int64(widths, device),
            continuous=torch.from_numpy(continuous).to(device),
            observational=_int64(np.flatnonzero(free), device),
            targets=torch.from_numpy(kinds[enough]).to(device),
            rows=tuple(_int64(positions, device) for positions in compress(rows, enough)),
        )

    @property
    def n_variables(self) -> int:
        """The number of variables, p."""
        return self.feature_index.shape[1]

    @property
    def n_features(self) -> int:
        """The number of one-hot features, W."""
        return int(self.widths.sum())

    def n_outputs(self, density: Density = NORMAL) -> int:
        """Returns a network's outputs: the most categories, or the parameters of a density."""
        return max(int(self.widths.max()), density.width if bool(self.continuous.any()) else 0)

    @property
    def intervened(self) -> Tensor:
        """The mask of the variables that some row was intervened on, shape (p,)."""
        return self.targets.any(dim=0)

    def counts(self) -> Tensor:
        """Counts the rows in which each variable was intervened on, float64 of shape (p,)."""
        counts = torch.zeros(self.n_variables, dtype=torch.float64)
        for target, rows in zip(self.targets.cpu(), self.rows, strict=True):
            counts[target] += len(rows)
        return counts

    def regime(self, number: int) -> tuple[Tensor, Tensor]:
        """Returns rows and targets, shape (p,), of a regime; -1 is the observational one."""
        if number < 0:
            return self.observational, torch.zeros_like(self.continuous)
        return self.rows[number], self.targets[number]

    def draw(self, rows: Tensor, size: int, generator: torch.Generator) -> Tensor:
        """Draws ``size`` of ``rows`` with replacement, as positions."""
        chosen = torch.randint(len(rows), (size,), generator=generator)
        return rows[chosen.to(rows.device)]

    def features(self, batch: Tensor) -> Tensor:
        """Computes the one-hot features of some rows, shape (B, W)."""
        whole = torch.zeros((len(batch), self.n_features), device=self.feature_values.device)
        return whole.scatter_(1, self.feature_index[batch], self.feature_values[batch])

    def nll(self, outputs: Tensor, batch: Tensor, density: Density = NORMAL) -> Tensor:
        """Computes negative log-likelihoods, (p, M B), of M times B rows from networks' outputs."""
        repeats = outputs.shape[1] // len(batch)
        values = self.feature_values[batch].T.repeat(1, repeats)
        numbers = torch.zeros_like(values)
        if bool(self.continuous.any()):
            numbers = density.nll(values, outputs[..., : density.width])
            if bool(self.continuous.all()):
                return numbers
        codes = (self.feature_index[batch] - self.first).T.repeat(1, repeats)
        unused = torch.arange(outputs.shape[2], device=outputs.device) >= self.widths[:, None]
        logits = outputs
        if bool(unused.any()):
            logits = outputs.masked_fill(unused[:, None, :], -torch.inf)
        chosen = logits.gather(2, codes[..., None])[..., 0]
        discrete = logits.logsumexp(dim=2) - chosen
        if not bool(self.continuous.any()):
            return discrete
        return torch.where(self.continuous[:, None], numbers, discrete)


def _int64(array: NDArray[np.float64] | NDArray[np.int64], device: Device) -> Tensor:
    return torch.from_numpy(array.astype(np.int64)).to(device)
