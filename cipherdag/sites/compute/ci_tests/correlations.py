"""The correlations of all columns of one site, kept for tests that look some of them up.

Leaks:
    Nothing: correlations stay inside the site.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.sites.compute.device import ROW_BLOCK
from cipherdag.statistics.partial_correlation import correlation_matrices

# A column is constant if its deviation is within this many roundings of its largest value.
LEAST_DEVIATION = 64.0 * float(np.finfo(np.float64).eps)
WHOLE_UP_TO = 4096
"""Columns up to which all correlations are kept, each of two columns twice; beyond it once."""
PANEL = 1024
"""Columns whose correlations with all others are computed at a time, where each is kept once."""


class Correlations(Protocol):
    """One matrix of correlations or more."""

    def among(self, place: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        """Those of the columns place[:, b], shape (k, B), with one another, shape (k, k, B).

        ``base``: where the matrix of every b starts, shape (B,).
        """


@dataclass(frozen=True, slots=True)
class WholeMatrices:
    """Every entry is kept.

    Attributes:
        entries: Matrices one after the other, by rows, flat.
        side: Rows of each.
    """

    entries: torch.Tensor
    side: int

    def among(self, place: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        """See `Correlations.among`."""
        index = place[:, None] * self.side + (place + base)
        return self.entries.index_select(0, index.view(-1)).view(*index.shape)


@dataclass(frozen=True, slots=True)
class HalfMatrix:
    """The diagonal and what is above it are kept.

    Attributes:
        entries: By rows, flat, shape (p (p + 1) / 2,).
        starts: Of every row i where its column j stands, less j, shape (p,).
    """

    entries: torch.Tensor
    starts: torch.Tensor

    def among(self, place: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        """See `Correlations.among`; there is one matrix."""
        del base
        smaller = torch.minimum(place[:, None], place)
        index = self.starts[smaller].add_(torch.maximum(place[:, None], place))
        return self.entries.index_select(0, index.view(-1)).view(*index.shape)


@dataclass(frozen=True, slots=True)
class StandardColumns:
    """The columns of a site in units of their own.

    Attributes:
        values: Shape (n, p).
        scale: The largest magnitude of every column, shape (p,).
        origin: What is taken off every column in that unit, shape (p,).
    """

    values: NDArray[np.float64]
    scale: FloatVector
    origin: FloatVector

    def centred(self, kept: IndexArray) -> Iterator[NDArray[np.float64]]:
        """Some columns without their means, block by block of the rows."""
        mean = np.zeros(len(kept))
        for block in self._blocks(kept):
            mean += block.sum(axis=0) / len(self.values)
        for block in self._blocks(kept):
            yield block - mean

    def _blocks(self, kept: IndexArray) -> Iterator[NDArray[np.float64]]:
        for start in range(0, len(self.values), ROW_BLOCK):
            rows = self.values[start : start + ROW_BLOCK, kept]
            yield rows / self.scale[kept] - self.origin[kept]


def correlations_of(
    columns: StandardColumns, incomplete: BoolVector, device: torch.device
) -> Correlations:
    """The correlations of all columns; of those with missing values none that may be read.

    Args:
        columns: The columns.
        incomplete: Which have missing values, shape (p,).
        device: Where they are computed, and kept.
    """
    kept = np.flatnonzero(~incomplete)
    if len(incomplete) > WHOLE_UP_TO:
        return _half(columns, kept, device)
    whole = torch.zeros((len(incomplete),) * 2, dtype=torch.float64, device=device)
    moments = torch.zeros((len(kept),) * 2, dtype=torch.float64, device=device)
    for block in columns.centred(kept):
        centred = torch.from_numpy(block).to(device)
        moments += centred.T @ centred
    rows = torch.full((1,), len(columns.values), device=device)
    places = torch.from_numpy(kept).to(device)
    whole[places[:, None], places] = correlation_matrices(
        moments[None], rows, least_deviation=LEAST_DEVIATION
    )[0]
    return WholeMatrices(whole.view(-1), len(incomplete))


def _half(columns: StandardColumns, kept: IndexArray, device: torch.device) -> HalfMatrix:
    """Each correlation once, a panel of columns at a time."""
    side = len(columns.scale)
    row = torch.arange(side, device=device)
    starts = row * (2 * side - row - 1) // 2
    entries = torch.zeros(side * (side + 1) // 2, dtype=torch.float64, device=device)
    places = torch.from_numpy(kept).to(device)
    squares = torch.zeros(len(kept), dtype=torch.float64, device=device)
    for block in columns.centred(kept):
        squares += torch.from_numpy(block).to(device).square_().sum(dim=0)
    varies = squares > len(columns.values) * LEAST_DEVIATION**2
    deviation = torch.where(varies, squares, torch.nan).sqrt_()
    for first in range(0, len(kept), PANEL):
        last = min(first + PANEL, len(kept))
        panel = torch.zeros(last - first, len(kept) - first, dtype=torch.float64, device=device)
        for block in columns.centred(kept[first:]):
            centred = torch.from_numpy(block).to(device)
            panel += centred[:, : last - first].T @ centred
        panel /= deviation[first:last, None]
        panel /= deviation[first:]
        panel.clamp_(-1.0, 1.0)
        for own in range(last - first):
            panel[own, own] = torch.where(varies[first + own], 1.0, torch.nan)
            entries[starts[places[first + own]] + places[first + own :]] = panel[own, own:]
    return HalfMatrix(entries, starts)
