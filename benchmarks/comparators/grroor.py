"""GRROOR: weights of features from orthogonal regression on what labels have in common.

Source: Xu, Wei, Jia, Zhuo, Nie, Wu, "Embedded multi-label feature selection via orthogonal
regression", Pattern Recognition 163 (2025) 111477 (arXiv 2403.00307). Its text was not at hand
beyond the abstract: objective, steps and settings are those of the authors' published program
(MLFS-GRROOR/GRROOR, commit 0d8c6e4). W by generalised power iteration (Nie, Zhang, Li, Science
China Information Sciences 60, 2017), the weights by the augmented Lagrangian of a quadratic on the
simplex, V and B by one gradient step of Armijo's length. Not the program's: the line searches look
at the objective where they step (the program's see it where they started), and features are taken
as they are (its example rotates them by principal components first). FedCMFS calls the rival GRROOR
and cites Zhang et al., IJCAI 2020, which is GRRO, by other authors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import kneighbors_graph

ARMIJO = 1e-4


@dataclass(frozen=True)
class Settings:
    """What the example of the program sets.

    Attributes:
        redundancy: Weight of the squared correlations of features, lambda.
        relevance: Weight of the labels' reconstruction, alpha.
        alike: Weight of the labels' cosines, beta.
        latent: Columns of V, c.
        cycles: Rounds over all four unknowns.
        neighbours: Of a row in the graph that smooths V.
    """

    redundancy: float = 0.6
    relevance: float = 1.0
    alike: float = 0.8
    latent: int = 2
    cycles: int = 10
    neighbours: int = 5


def rank(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Columns, the best first.

    Args:
        features: Shape (n, d).
        labels: 0/1, shape (n, q).
        rng: Draws where V and B start.
    """
    return np.argsort(-weights(features, labels, rng, Settings()), kind="stable")


def weights(
    features: np.ndarray, labels: np.ndarray, rng: np.random.Generator, settings: Settings
) -> np.ndarray:
    """Weights of the features, shape (d,), about on the simplex; the larger the better."""
    problem = Problem(features, labels, settings)
    d = features.shape[1]
    theta = np.full(d, 1.0 / d)
    b = rng.random((labels.shape[1], settings.latent))
    v = rng.random((settings.latent, len(features)))
    for _ in range(settings.cycles):
        w = problem.directions(theta, v, rng)
        theta = on_simplex(*problem.quadratic(w, v))
        v, b = problem.steps(theta, w, v, b)
    return theta


class Problem:
    """|W' T X H - V H|^2 + tr(V L V') + lambda theta'R theta + alpha |Y - B V|^2 + beta tr(S BB').

    X has a column per row of data and H centres them, T holds theta; L is the Laplacian of the
    rows' nearest neighbours with heat kernel weights, R holds squared correlations, S the cosines
    of labels, which are -1 and 1.
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray, settings: Settings) -> None:
        self._x = (features - features.mean(axis=0)).T
        self._y = 2.0 * labels.T - 1.0
        self._settings = settings
        self._inner = self._x @ self._x.T
        scale = np.sqrt(np.diag(self._inner))
        scale = np.where(scale > 0.0, scale, np.inf)
        self._redundancy = (self._inner / np.outer(scale, scale)) ** 2
        length = np.linalg.norm(self._y, axis=1)
        self._alike = self._y @ self._y.T / np.outer(length, length)
        self._laplacian = laplacian(features, settings.neighbours)

    def directions(self, theta: np.ndarray, v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """W of orthonormal columns, shape (d, c), nearest to V."""
        scaled = theta[:, None] * self._x
        return stiefel(scaled @ scaled.T, scaled @ v.T, rng)

    def quadratic(self, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A and b of theta'A theta - theta'b."""
        a = self._inner * (w @ w.T) + self._settings.redundancy * self._redundancy
        return a, 2.0 * np.sum((self._x @ v.T) * w, axis=1)

    def steps(
        self, theta: np.ndarray, w: np.ndarray, v: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """V and then B, one gradient step each."""
        fitted = w.T @ (theta[:, None] * self._x)
        relevance = self._settings.relevance

        def of_v(at: np.ndarray) -> float:
            smooth = np.sum((at @ self._laplacian) * at)
            apart = fitted - centred(at)
            return np.sum(apart**2) + smooth + relevance * np.sum((self._y - b @ at) ** 2)

        slope = 2.0 * (v @ self._laplacian + centred(centred(v) - fitted))
        v = descend(of_v, v, slope + 2.0 * relevance * b.T @ (b @ v - self._y))

        def of_b(at: np.ndarray) -> float:
            alike = np.sum((self._alike @ at) * at)
            return relevance * np.sum((self._y - at @ v) ** 2) + self._settings.alike * alike

        slope = 2.0 * relevance * (b @ v - self._y) @ v.T
        return v, descend(of_b, b, slope + 2.0 * self._settings.alike * self._alike @ b)

    def value(self, theta: np.ndarray, w: np.ndarray, v: np.ndarray, b: np.ndarray) -> float:
        """The objective."""
        own = self._settings
        fitted = w.T @ (theta[:, None] * self._x)
        return float(
            np.sum((fitted - centred(v)) ** 2)
            + np.sum((v @ self._laplacian) * v)
            + own.redundancy * theta @ self._redundancy @ theta
            + own.relevance * np.sum((self._y - b @ v) ** 2)
            + own.alike * np.sum((self._alike @ b) * b)
        )


def centred(rows: np.ndarray) -> np.ndarray:
    """Every row minus its mean."""
    return rows - rows.mean(axis=1, keepdims=True)


def laplacian(features: np.ndarray, neighbours: int) -> np.ndarray:
    """Of the graph of nearest neighbours with weights exp(-distance^2 / 2), shape (n, n)."""
    k = min(neighbours, len(features) - 1)
    near = kneighbors_graph(features, k, mode="distance")
    near.data = np.exp(-(near.data**2) / 2.0)
    graph = near.maximum(near.T).toarray()
    return np.diag(graph.sum(axis=1)) - graph


def stiefel(
    a: np.ndarray, b: np.ndarray, rng: np.random.Generator, tolerance: float = 1e-3
) -> np.ndarray:
    """W of orthonormal columns that makes tr(W'AW - 2W'B) small, by generalised power iteration.

    Args:
        a: Symmetric, shape (d, d).
        b: Shape (d, c), c at most d.
        rng: Draws where it starts.
        tolerance: It ends once a step gains no more.
    """
    shift = np.linalg.norm(a, 2)
    w = np.linalg.qr(rng.random(b.shape))[0]
    last = np.inf
    while True:
        left, _, right = np.linalg.svd(2.0 * (shift * w - a @ w) + 2.0 * b, full_matrices=False)
        w = left @ right
        value = np.sum(w * (a @ w)) - 2.0 * np.sum(w * b)
        if last - value <= tolerance:
            return w
        last = value


def on_simplex(a: np.ndarray, b: np.ndarray, rounds: int = 100) -> np.ndarray:
    """Theta of sum 1 and no negative part, nearly, that makes theta'A theta - theta'b small.

    By an augmented Lagrangian whose penalty grows by 1 % a round, from 0.1.
    """
    d = len(b)
    values, vectors = np.linalg.eigh(2.0 * a)
    ones = vectors.sum(axis=0)
    nonnegative, slack_price, sum_price = np.zeros(d), np.zeros(d), 0.0
    penalty, last = 0.1, np.inf
    for _ in range(rounds):
        target = penalty * (nonnegative + 1.0) + b - sum_price - slack_price
        shrunk = 1.0 / (values + penalty)  # then the rank-one part of the constraint on the sum
        inner = shrunk * (vectors.T @ target)
        correction = penalty * (ones @ inner) / (1.0 + penalty * np.sum(ones**2 * shrunk))
        theta = vectors @ (inner - correction * shrunk * ones)
        nonnegative = np.maximum(theta + slack_price / penalty, 0.0)
        slack_price = slack_price + penalty * (theta - nonnegative)
        sum_price += penalty * (theta.sum() - 1.0)
        penalty *= 1.01
        value = theta @ a @ theta - theta @ b
        if abs(value - last) < 1e-8 * abs(value):
            break
        last = value
    return theta


def descend(objective, at: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """One step down the slope, halved until it gains enough (Armijo); none if it never does."""
    start, steep = objective(at), np.sum(slope**2)
    for halving in range(100):
        length = 0.5**halving
        if objective(at - length * slope) <= start - ARMIJO * length * steep:
            return at - length * slope
    return at
