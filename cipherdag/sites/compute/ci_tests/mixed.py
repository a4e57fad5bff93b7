"""Likelihood ratios test the conditional independence of continuous and binary variables.

Sums over rows are taken test by test, so an outcome does not depend on the other tests of its
batch or on how much memory there is.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.sites.compute.ci_tests.ci_test import (
    N_COLUMNS,
    CachedCITest,
    ColumnData,
    TestBatch,
    check_numbers,
    computes,
    half,
    not_done,
)
from cipherdag.sites.compute.device import (
    DEFAULT_MEMORY,
    batch_bytes,
    most_elements,
    resolve_device,
)
from cipherdag.statistics.newton import HALVINGS
from cipherdag.statistics.regression_fits import FEWEST_PER_COEFFICIENT, LEAST_REST
from cipherdag.statistics.threads import threads_for

LARGEST_LOGIT = 30.0
ITERATIONS = 50
CONVERGED = 1e-7  # after a Newton step of so small a gain, the remaining gain is about its square
RIDGE = 1e-9
BYTES_PER_ELEMENT = 48
CHUNK_ELEMENTS = 2**18


@computes("likelihood-ratio")
class LikelihoodRatioTest(CachedCITest):
    """Likelihood ratios of nested regressions test one site's continuous and binary columns.

    Of the two variables of a test, one is regressed on the conditioning set and once more with the
    other variable added: the one that is 0/1 by a logistic model (the one with the smaller position
    if both are), by a linear Gaussian model if neither is. Twice the gain in log likelihood is
    chi-square with one degree of freedom under independence. With two 0/1 variables and an empty
    set it is G2; with two numbers it is -n ln(1 - r**2), r the partial correlation. It is the
    dependence of the evidence as well.

    A test is not done, so that its p-value is NaN, if there are fewer than 5 rows (for a logistic
    model: rows of the rarer value) per coefficient, or if either variable is a linear combination
    of the conditioning set, such as a constant. Rows with a missing value in one of a test's
    variables are left out of that test.

    Source: Agresti, Categorical Data Analysis, section 5.4; Vittinghoff and McCulloch, American
    Journal of Epidemiology 165 (2007) 710-718, for the rows per coefficient.

    Args:
        values: Numbers, float64 of shape (n, p); NaN where missing.
        binary: Which columns hold 0 and 1 only, shape (p,).
        device: ``auto``, ``cpu`` or ``cuda``.
        memory_bytes: Half of it bounds what a batch needs at a time, unless one test needs more;
            the other half bounds the cache of outcomes; None for 256 MiB, and on a card a batch by
            its free memory.

    Raises:
        ParameterError: The shapes or types do not fit, or a binary column holds other numbers.
    """

    def __init__(
        self,
        values: NDArray[np.float64],
        binary: NDArray[np.bool_],
        *,
        device: str = "cpu",
        memory_bytes: int | None = None,
    ) -> None:
        check_numbers(values)
        if binary.shape != (values.shape[1],):
            raise ParameterError("binary must say of every column whether it is 0/1")
        missing = np.isnan(values)
        if not (missing | (values == 0) | (values == 1))[:, binary].all():
            raise ParameterError("a binary column holds other numbers than 0 and 1")
        self._device = resolve_device(device)
        memory = half(DEFAULT_MEMORY if memory_bytes is None else memory_bytes)
        super().__init__(values.shape[1], cache_bytes=memory)
        self._binary = binary
        self._complete = not missing.any()
        self._n_rows = len(values)
        affordable = half(memory_bytes or batch_bytes(self._device)) // BYTES_PER_ELEMENT
        self._most = most_elements(self._device, affordable, CHUNK_ELEMENTS)
        self._columns = torch.from_numpy(_standard(values, missing, binary)).to(self._device)
        self._observed = torch.from_numpy((~missing).T.astype(np.float64)).to(self._device)

    @classmethod
    def of_table(cls, table: ColumnData, spec: CITestSpec, name: str, device: str) -> Self:
        """See `CachedCITest.of_table`."""
        del spec, name
        return cls(table.numbers(), np.array(table.cardinalities) > 0, device=device)

    def _compute(self, tests: TestBatch) -> FloatMatrix:
        # the response is x unless only y is binary
        flip = ~self._binary[tests.x] & self._binary[tests.y]
        response = np.where(flip, tests.y, tests.x)
        added = np.where(flip, tests.x, tests.y)
        outcomes = np.empty((len(tests), N_COLUMNS))
        chunk = max(self._most // (self._n_rows * (tests.given.shape[1] + 4)), 1)
        for logistic in (False, True):
            index = np.flatnonzero(self._binary[response] == logistic)
            # tests of one response and condition side by side share the smaller model
            models = np.column_stack([tests.given[index], response[index]])
            index = index[np.lexsort(models.T)]
            for start in range(0, index.size, chunk):
                part = index[start : start + chunk]
                with threads_for(len(part) * self._n_rows):
                    outcomes[part] = self._outcomes(
                        response[part], added[part], tests.given[part], logistic=logistic
                    )
        return outcomes

    def _outcomes(
        self, response: IndexArray, added: IndexArray, given: IndexArray, *, logistic: bool
    ) -> FloatMatrix:
        from scipy.special import erfc

        target, other, *conditions = (
            torch.from_numpy(np.ascontiguousarray(column)).to(self._device)
            for column in (response, added, *given.T)
        )
        weight = self._observed[target] * self._observed[other]
        for condition in conditions:
            weight = weight * self._observed[condition]
        ones = torch.ones_like(weight)
        columns = [ones, *(self._columns[c] for c in conditions), self._columns[other]]
        large, y = torch.stack(columns, dim=1), self._columns[target]
        small = large[:, :-1].contiguous()
        rows = weight.sum(dim=1)
        scarce = rows
        if logistic:
            positive = (weight * y).sum(dim=1)
            scarce = torch.minimum(positive, rows - positive)
        done = scarce >= FEWEST_PER_COEFFICIENT * len(columns)
        done &= _unexplained(small, columns[-1], weight) > LEAST_REST
        first, which = self._shared(response, given)
        smaller = small[first], y[first], weight[first]
        done &= (_unexplained(*smaller) > LEAST_REST)[which]
        if logistic:
            before, logits = _logistic_loss(*smaller, torch.zeros_like(smaller[1]))
            # starts near its maximum: the added variable seldom explains much
            after, _ = _logistic_loss(large, y, weight, logits[which])
        else:
            before, after = _linear_loss(*smaller), _linear_loss(large, y, weight)
        ratio = (before[which] - after).clamp_(min=0.0)
        statistic = torch.where(done, ratio, torch.nan).cpu().numpy()
        outcomes = not_done(rows.cpu().numpy())
        outcomes[:, 0] = erfc(np.sqrt(statistic / 2.0))
        outcomes[:, 1] = outcomes[:, 3] = statistic
        outcomes[:, 2] = np.where(np.isnan(statistic), np.nan, 1.0)
        return outcomes

    def _shared(self, response: IndexArray, given: IndexArray) -> tuple[torch.Tensor, torch.Tensor]:
        """Finds the distinct smaller models: one test of each, and the index of every test's."""
        first = which = np.arange(len(response))
        if self._complete:
            models = np.column_stack([response, given])
            _, first, which = np.unique(models, axis=0, return_index=True, return_inverse=True)
        return (
            torch.from_numpy(first).to(self._device),
            torch.from_numpy(which.reshape(-1)).to(self._device),
        )


def _standard(
    values: NDArray[np.float64], missing: NDArray[np.bool_], binary: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Standardises continuous columns, shape (p, n), with 0 where missing; binary ones stay."""
    filled = np.where(missing, 0.0, values)
    rows = np.maximum((~missing).sum(axis=0), 1)
    mean = np.where(binary, 0.0, filled.sum(axis=0) / rows)
    centred = np.where(missing, 0.0, values - mean)
    deviation = np.sqrt((centred**2).sum(axis=0) / rows)
    scale = np.where(binary | (deviation == 0.0), 1.0, deviation)
    return np.ascontiguousarray((centred / scale).T)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiplies matrices one by one, (B, i, j) by (B, j, k)."""
    if left.device.type != "cpu":
        return left @ right
    # one product per test: a product of many tests may sum in another order than one test's
    return torch.from_numpy(left.numpy() @ right.numpy())


def _solve(design: torch.Tensor, weight: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """Solves (D W D') b = D m for every test: D (B, k, n), diagonal of W and m (B, n), b (B, k)."""
    gram = _product(design * weight[:, None], design.transpose(1, 2))
    size = gram.diagonal(dim1=1, dim2=2)
    size += RIDGE * size.amax(dim=1, keepdim=True) + torch.finfo(size.dtype).tiny
    solution: torch.Tensor = torch.linalg.solve(gram, _product(design, moments[:, :, None]))
    return solution[:, :, 0]


def _combine(coefficients: torch.Tensor, design: torch.Tensor) -> torch.Tensor:
    """Computes the linear predictor of every test, shape (B, n)."""
    return _product(coefficients[:, None], design)[:, 0]


def _linear_residual(design: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Computes the weighted residual sum of squares of every test, shape (B,)."""
    residual = y - _combine(_solve(design, weight, weight * y), design)
    return (weight * residual * residual).sum(dim=1)


def _unexplained(design: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Computes 1 - R^2 of the regression of y on the design, shape (B,)."""
    squares = (weight * y * y).sum(dim=1)
    return _linear_residual(design, y, weight) / squares.clamp(min=torch.finfo(y.dtype).tiny)


def _linear_loss(design: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Computes minus twice the log likelihood of a linear Gaussian model, up to a constant."""
    squares = (weight * y * y).sum(dim=1)
    # bounds the residual of a perfect fit, which is rounding
    least = torch.finfo(squares.dtype).eps * squares
    residual = torch.maximum(_linear_residual(design, y, weight), least)
    return weight.sum(dim=1) * torch.log(residual.clamp_(min=torch.finfo(y.dtype).tiny))


def _logistic_loss(
    design: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fits a logistic model: minus twice its maximal log likelihood, and the logits there.

    Newton's method from ``logits``, a combination of the design's rows; shapes (B,) and (B, n).
    Where the design separates the two values (y is 0 or 1) the coefficients have no maximum, but
    the likelihood tends to 1.
    """
    sign = 2.0 * y - 1.0
    loss, error = _deviance(logits, sign, weight)
    least, best = loss.clone(), logits.clone()
    index, going = torch.arange(len(y), device=y.device), torch.ones_like(loss, dtype=torch.bool)
    for _ in range(ITERATIONS):
        proposed, new, missed = _newton_step(design, sign, weight, logits, loss, error)
        # converged tests take no further step, whichever other tests share the batch
        gained = going & (new < loss)
        least[index[gained]], best[index[gained]] = new[gained], proposed[gained]
        going &= loss - new > CONVERGED * (1.0 + loss)
        if not going.any():
            break
        logits, loss, error = proposed, new, missed
        if 2 * int(going.sum()) < len(going):
            index, logits, loss, error = index[going], logits[going], loss[going], error[going]
            design, sign, weight = design[going], sign[going], weight[going]
            going = going[going]
    return least, best


def _newton_step(
    design: torch.Tensor,
    sign: torch.Tensor,
    weight: torch.Tensor,
    logits: torch.Tensor,
    loss: torch.Tensor,
    error: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes a damped Newton step to logits (B, n), their loss (B,), and their errors (B, n)."""
    weighted = weight * error
    direction = _combine(_solve(design, weighted * (1.0 - error), sign * weighted), design)
    step = torch.ones_like(loss)
    for _ in range(HALVINGS):
        proposed = (logits + step[:, None] * direction).clamp_(-LARGEST_LOGIT, LARGEST_LOGIT)
        new, missed = _deviance(proposed, sign, weight)
        # at the maximum rounding decides whether a step gains
        worse = new - loss > CONVERGED * (1.0 + loss)
        if not worse.any():
            break
        step = torch.where(worse, step / 2.0, step)
    return proposed, new, missed


def _deviance(
    logits: torch.Tensor, sign: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the deviance, shape (B,), and the probability of the other value, shape (B, n).

    The sign is 1 where the value is 1, and -1 where it is 0; logits are at most 30 in magnitude.
    """
    odds = (sign * logits).neg_().exp_()
    loss = 2.0 * (weight * torch.log1p(odds)).sum(dim=1)
    return loss, odds.div_(1.0 + odds)
