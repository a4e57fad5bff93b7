"""Full kernel matrices give the moments of kernel tests in batches on an accelerator.

A residual matrix R K R belongs to a variable and a conditioning set, so all tests of a batch that
share both share it. Products of many matrices at a time occupy an accelerator; on a CPU the factors
of `kernel_factors` need a fraction of the operations, and p-values agree within 1e-6.

Source: Zhang, Peters, Janzing and Schoelkopf, UAI 2011.
"""

from collections.abc import Iterator

import numpy as np
import torch

from cipherdag.arrays import FloatMatrix, IndexArray
from cipherdag.sites.compute.ci_tests.kernel_factors import (
    RIDGE,
    SCALE_OF_Z,
    inverse_square_width,
    tiles,
)

PARTS_PER_MATRIX = 4  # a kernel matrix and the temporary ones of its computation


class FullKernels:
    """Computes kernel statistics over standardised columns from full kernel matrices."""

    def __init__(self, columns: torch.Tensor, *, memory_bytes: int) -> None:
        self._columns = columns
        bytes_each = 8 * PARTS_PER_MATRIX * max(columns.shape[1], 1) ** 2
        self._matrices = max(memory_bytes // bytes_each, 3)

    def moments(self, order: IndexArray) -> FloatMatrix:
        """Computes moments as `kernel_factors.KernelMoments` defines them, shape (3, B)."""
        moments = _marginal if order.shape[1] == 2 else _conditional  # noqa: PLR2004
        return moments(self._columns, order, self._matrices)


def _marginal(columns: torch.Tensor, order: IndexArray, matrices: int) -> FloatMatrix:
    """Computes statistic, null mean and null variance of tests without Z, shape (3, B)."""
    n_rows = columns.shape[1]
    scale = inverse_square_width("marginal", n_rows)
    moments = np.empty((3, len(order)))
    for tile in tiles(order, matrices // 2):
        (x, at_x), (y, at_y) = (np.unique(side, return_inverse=True) for side in order[tile].T)
        first, second = (
            _centred(_kernel(_squares(columns, side[:, None]), scale)).flatten(1) for side in (x, y)
        )
        traces = [matrices[:, :: n_rows + 1].sum(1) for matrices in (first, second)]
        products = (
            first @ second.T,
            torch.outer(*traces) / n_rows,
            2.0 * torch.outer(first.square().sum(1), second.square().sum(1)) / n_rows**2,
        )
        moments[:, tile] = torch.stack(products).cpu().numpy()[:, at_x, at_y]
    return moments


def _conditional(columns: torch.Tensor, order: IndexArray, matrices: int) -> FloatMatrix:
    """Computes statistic, null mean and null variance of tests given Z, shape (3, B)."""
    moments = np.empty((3, len(order)))
    for part in _parts(order, matrices):
        tests = order[part]
        sets, of_set = np.unique(tests[:, 2:], axis=0, return_inverse=True)
        (x, at_x), (y, at_y) = (
            np.unique(
                np.column_stack([tests[:, side], of_set.ravel()]), axis=0, return_inverse=True
            )
            for side in (0, 1)
        )
        first, second = _regressed(columns, sets, x, y)
        at = (torch.from_numpy(index.ravel()).to(columns.device) for index in (at_x, at_y))
        moments_of_tiles = [
            _moments(first[i], second[j])
            for i, j in zip(
                *(torch.split(index, max(matrices // 3, 1)) for index in at), strict=True
            )
        ]
        moments[:, part] = torch.cat(moments_of_tiles, dim=1).cpu().numpy()
    return moments


def _regressed(
    columns: torch.Tensor, sets: IndexArray, x: IndexArray, y: IndexArray
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes R K R of all pairs (variable, index of its set), (X, m, m) and (Y, m, m)."""
    n_rows = columns.shape[1]
    scale = inverse_square_width("conditional", n_rows) / sets.shape[1]
    distances = _squares(columns, sets)
    ridge = RIDGE * torch.eye(n_rows, dtype=columns.dtype, device=columns.device)
    factor = torch.linalg.cholesky(_centred(_kernel(distances.clone(), scale)) + ridge)
    residual = RIDGE * torch.cholesky_inverse(factor)
    del factor

    def side(rows: IndexArray, scale_of_z: float) -> torch.Tensor:
        of_set = torch.from_numpy(rows[:, 1]).to(columns.device)
        squares = _squares(columns, rows[:, :1])
        if scale_of_z:
            squares += scale_of_z * distances[of_set]
        regression = residual[of_set]
        return regression @ _centred(_kernel(squares, scale)) @ regression

    return side(x, SCALE_OF_Z**2), side(y, 0.0)


def _moments(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Computes statistic, null mean and null variance of B pairs of matrices, shape (3, B)."""
    product = first * second
    trace = product.diagonal(dim1=1, dim2=2).sum(1)
    return torch.stack([product.sum((1, 2)), trace, 2.0 * product.square().sum((1, 2))])


def _squares(columns: torch.Tensor, variables: IndexArray) -> torch.Tensor:
    """Computes squared distances of all pairs of rows in sets of variables, (G, l): (G, m, m)."""
    positions = torch.from_numpy(variables).to(columns.device)
    total: torch.Tensor | None = None
    for position in positions.unbind(dim=1):
        column = columns[position]
        square = (column[:, :, None] - column[:, None, :]).square_()
        total = square if total is None else total.add_(square)
    assert total is not None, "there is at least one variable"
    return total


def _kernel(squares: torch.Tensor, scale: float) -> torch.Tensor:
    """Computes Gaussian kernels from squared distances, overwriting them."""
    return squares.mul_(-0.5 * scale).exp_()


def _centred(kernel: torch.Tensor) -> torch.Tensor:
    """Centres the rows and columns of symmetric matrices (G, m, m), overwriting them."""
    mean = kernel.mean(dim=2)
    kernel -= mean[:, None, :]
    kernel -= mean[:, :, None]
    kernel += mean.mean(dim=1)[:, None, None]
    return kernel


def _parts(order: IndexArray, matrices: int) -> Iterator[IndexArray]:
    """Yields parts of the tests that need at most ``matrices`` each; one test needs three."""
    side = max(matrices // 3, 1)
    # by conditioning set, then by blocks of x and y, so that few matrices are computed twice
    blocks = [order[:, 1], order[:, 0], order[:, 1] // side, order[:, 0] // side]
    waiting: list[int] = []
    made: set[tuple[int, ...]] = set()
    for test in np.lexsort([*blocks, *order[:, 2:].T]).tolist():
        x, y, *members = order[test].tolist()
        needed = {tuple(members), (0, x, *members), (1, y, *members)}
        if waiting and len(made | needed) > matrices:
            yield np.array(waiting)
            waiting, made = [], set()
        waiting.append(test)
        made |= needed
    if waiting:
        yield np.array(waiting)
