"""Kernel ridge regression on Z, and what it leaves of kernel matrices; on a processor.

A kernel matrix of n rows in few variables has, up to rounding, far smaller a rank r than n: it is
L L^T with L from a pivoted Cholesky decomposition, of shape (n, r). With the columns of L_z centred
and C C^T = L_z^T L_z + e I, the matrix Q of the columns of L_z C^-T and of 1 / sqrt(n) regresses
and centres at once: R H = I - Q Q^T, with R = e (K_Z + e I)^-1 and the centring H. Then

    R H K H R = K - U Q^T - Q U^T,  U = K Q - Q (Q^T K Q) / 2,

4 n r (n + r) steps instead of 4 n^3. Where r > n / 2 this does not pay, and R H is multiplied.

Sources: Zhang, Peters, Janzing and Schoelkopf, UAI 2011 (the regression); Fine and Scheinberg,
JMLR 2 (2001) (kernel matrices by pivoted Cholesky decomposition).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cipherdag.arrays import FloatMatrix
from cipherdag.sites.compute.ci_tests.kernels import RIDGE

LEFT_OUT = 1e-11
"""What a decomposition may leave of the diagonal of K_Z, whose elements are 1."""
WORTHWHILE = 0.5
"""Largest r / n of a factor that is used."""
STRIPS = 4


@dataclass(frozen=True, slots=True)
class FactoredRegression:
    """Regression by I - Q Q^T.

    Attributes:
        explained: Q, shape (n, r + 1).
    """

    explained: FloatMatrix

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.explained.nbytes

    def regress(self, kernel: FloatMatrix) -> None:
        """Put what is left of a kernel matrix in the place of its upper triangle."""
        from scipy.linalg.blas import dsyr2k

        left = kernel @ self.explained
        left -= self.explained @ (0.5 * (self.explained.T @ left))
        transposed = self.explained.T
        dsyr2k(-1.0, left.T, transposed, 1.0, kernel.T, trans=1, lower=1, overwrite_c=1)

    def left_of(self, factor: FloatMatrix) -> FloatMatrix:
        """What is left of a factor (n, r) of a kernel matrix: a factor of what is left of that."""
        return factor - self.explained @ (self.explained.T @ factor)


@dataclass(frozen=True, slots=True)
class WholeRegression:
    """Regression by the matrix itself.

    Attributes:
        residual: R H, symmetric, shape (n, n).
    """

    residual: FloatMatrix

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.residual.nbytes

    def regress(self, kernel: FloatMatrix) -> None:
        """Put what is left of a kernel matrix in the place of its upper triangle."""
        n_rows = len(kernel)
        half = kernel @ self.residual
        for start, stop in pairwise(n_rows * strip // STRIPS for strip in range(STRIPS + 1)):
            kernel[start:stop, start:] = self.residual[start:stop] @ half[:, start:]

    def left_of(self, factor: FloatMatrix) -> FloatMatrix:
        """What is left of a factor (n, r) of a kernel matrix: a factor of what is left of that."""
        return self.residual @ factor


Regression = FactoredRegression | WholeRegression


def regression_on(exponent: FloatMatrix) -> Regression:
    """The regression on Z of kernel matrix exp(exponent), shape (n, n)."""
    n_rows = len(exponent)
    factor = centred_factor(np.exp(exponent), LEFT_OUT)
    if factor.shape[1] <= WORTHWHILE * n_rows:
        return FactoredRegression(_explained(factor))
    return WholeRegression(_residual(np.exp(exponent)))


def centred_factor(kernel: FloatMatrix, left_out: float) -> FloatMatrix:
    """L of shape (n, r) with L L^T the centred kernel matrix, whose memory it takes.

    Args:
        kernel: Positive semi-definite with a diagonal of 1, shape (n, n).
        left_out: Largest element that may be left of the diagonal.
    """
    from scipy.linalg.lapack import dpstrf

    packed, pivots, rank, _ = dpstrf(kernel.T, tol=left_out, lower=1, overwrite_a=1)
    factor = np.empty((len(kernel), rank))
    factor[pivots - 1] = np.tril(packed[:, :rank])
    factor -= factor.mean(axis=0)
    return factor


def _explained(factor: FloatMatrix) -> FloatMatrix:
    """Q from the centred factor of K_Z, (n, r), in shape (n, r + 1)."""
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
    """R H from K_Z, whose memory it takes."""
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
