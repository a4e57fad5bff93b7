"""Kernel ridge regression on Z gives the residuals of kernel matrices on a CPU.

A kernel matrix of n rows in few variables has, up to rounding, a rank r far below n: it is L L^T
with L from a pivoted Cholesky decomposition, of shape (n, r). With the columns of L_z centred
and C C^T = L_z^T L_z + e I, the matrix Q of the columns of L_z C^-T and of 1 / sqrt(n) regresses
and centres at once: R H = I - Q Q^T, with R = e (K_Z + e I)^-1 and the centring H. Then

    R H K H R = K - U Q^T - Q U^T,  U = K Q - Q (Q^T K Q) / 2,

4 n r (n + r) operations instead of 4 n^3. Where r > n / 2, R H itself is multiplied.

Sources: Zhang, Peters, Janzing and Schoelkopf, UAI 2011 (the regression); Fine and Scheinberg,
JMLR 2 (2001) (kernel matrices by pivoted Cholesky decomposition).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cipherdag.arrays import FloatMatrix
from cipherdag.sites.compute.ci_tests.kernels import RIDGE

TOLERANCE = 1e-11
"""Tolerance of the Cholesky decomposition of K_Z, whose diagonal is 1."""
WORTHWHILE = 0.5
"""Largest r / n for which the low-rank regression is used."""
STRIPS = 4


@dataclass(frozen=True, slots=True)
class FactoredRegression:
    """A low-rank regression computes residuals by I - Q Q^T.

    Attributes:
        explained: Q, shape (n, r + 1).
    """

    explained: FloatMatrix

    @property
    def nbytes(self) -> int:
        """The number of bytes of its matrix."""
        return self.explained.nbytes

    def regress(self, kernel: FloatMatrix) -> None:
        """Replaces the upper triangle of a kernel matrix K by that of R H K H R."""
        from scipy.linalg.blas import dsyr2k

        left = kernel @ self.explained
        left -= self.explained @ (0.5 * (self.explained.T @ left))
        transposed = self.explained.T
        dsyr2k(-1.0, left.T, transposed, 1.0, kernel.T, trans=1, lower=1, overwrite_c=1)

    def residual_of(self, factor: FloatMatrix) -> FloatMatrix:
        """Computes R H F of a factor F, (n, r), of K: the residual R H K H R is its Gram matrix."""
        return factor - self.explained @ (self.explained.T @ factor)


@dataclass(frozen=True, slots=True)
class FullRegression:
    """A full-rank regression computes residuals by the matrix R H.

    Attributes:
        residual: R H, symmetric, shape (n, n).
    """

    residual: FloatMatrix

    @property
    def nbytes(self) -> int:
        """The number of bytes of its matrix."""
        return self.residual.nbytes

    def regress(self, kernel: FloatMatrix) -> None:
        """Replaces the upper triangle of a kernel matrix K by that of R H K H R."""
        n_rows = len(kernel)
        half = kernel @ self.residual
        for start, stop in pairwise(n_rows * strip // STRIPS for strip in range(STRIPS + 1)):
            kernel[start:stop, start:] = self.residual[start:stop] @ half[:, start:]

    def residual_of(self, factor: FloatMatrix) -> FloatMatrix:
        """Computes R H F of a factor F, (n, r), of K: the residual R H K H R is its Gram matrix."""
        return self.residual @ factor


KernelRegression = FactoredRegression | FullRegression
"""A kernel ridge regression on Z, with a low-rank or a full kernel matrix."""


def regression_on(exponent: FloatMatrix) -> KernelRegression:
    """Makes the regression on Z, whose kernel matrix is exp(exponent), shape (n, n)."""
    n_rows = len(exponent)
    factor = centred_factor(np.exp(exponent), TOLERANCE)
    if factor.shape[1] <= WORTHWHILE * n_rows:
        return FactoredRegression(_explained(factor))
    return FullRegression(_residual(np.exp(exponent)))


def centred_factor(kernel: FloatMatrix, tolerance: float) -> FloatMatrix:
    """Decomposes a kernel matrix into L L^T, L of shape (n, r) centred, overwriting it.

    Args:
        kernel: Positive semi-definite with a diagonal of 1, shape (n, n).
        tolerance: Largest diagonal element that may be neglected.
    """
    from scipy.linalg.lapack import dpstrf

    packed, pivots, rank, _ = dpstrf(kernel.T, tol=tolerance, lower=1, overwrite_a=1)
    factor = np.empty((len(kernel), rank))
    factor[pivots - 1] = np.tril(packed[:, :rank])
    factor -= factor.mean(axis=0)
    return factor


def _explained(factor: FloatMatrix) -> FloatMatrix:
    """Computes Q, shape (n, r + 1), from the centred factor of K_Z, shape (n, r)."""
    from scipy.linalg import cholesky
    from scipy.linalg.blas import dtrsm

    n_rows, rank = factor.shape
    inner = factor.T @ factor
    inner[np.diag_indices(rank)] += RIDGE
    explained = np.empty((n_rows, rank + 1))
    explained[:, :rank] = dtrsm(1.0, cholesky(inner, lower=True), factor.T, lower=1).T
    explained[:, rank] = n_rows**-0.5
    return explained


def _residual(kernel: FloatMatrix) -> FloatMatrix:
    """Computes R H = e (H K_Z H + e I)^-1 - 1 1^T / n from K_Z, overwriting it."""
    from scipy.linalg import cholesky
    from scipy.linalg.lapack import dpotri

    mean = kernel.mean(axis=0)
    kernel -= mean
    kernel -= mean[:, None] - mean.mean()
    kernel[np.diag_indices(len(kernel))] += RIDGE
    inverse, _ = dpotri(cholesky(kernel.T, lower=True, overwrite_a=True), lower=1, overwrite_c=1)
    residual: FloatMatrix = np.tril(inverse)
    residual += np.tril(inverse, -1).T
    residual *= RIDGE
    residual -= 1.0 / len(residual)
    return residual
