"""GLFS: features shared by groups of labels and features of single labels, on corrected labels.

Source: Zhang, Wu, Jiang, Liu, Li, Tang, Long, "Group-preserving label-specific feature selection
for multi-label learning", Expert Systems with Applications 213 (2023) 118861. Its text was not at
hand beyond the abstract: objective, steps and settings are those of the authors' published program
(jiazhang-ml/GLFS, commit aa252ea). Labels fall into 5 groups and rows into 8, by k-means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve
from sklearn.cluster import KMeans

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Settings:
    """What the example of the program sets.

    Attributes:
        loyalty: Weight of corrected labels staying near their row group's mean, alpha.
        sparse: Weight of features of single labels, beta.
        shared: Weight of features that a group of labels shares, gamma.
        borrowed: How much labels take from others of the row group, lambda, in 0..1.
        label_groups: Groups of labels.
        row_groups: Groups of rows.
        rounds: Most rounds.
        margin: Relative gain below which it ends.
    """

    loyalty: float = 0.2
    sparse: float = 1000.0
    shared: float = 10.0
    borrowed: float = 0.4
    label_groups: int = 5
    row_groups: int = 8
    rounds: int = 200
    margin: float = 1e-3


def rank(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Columns, the largest sum of squared coefficients first.

    Args:
        features: Shape (n, d).
        labels: 0/1, shape (n, q).
        rng: Draws the groups and where the coefficients start.
    """
    coefficients, _ = fit(features, labels, rng, Settings())
    return np.argsort(-np.sum(coefficients**2, axis=1), kind="stable")


def fit(
    features: np.ndarray, labels: np.ndarray, rng: np.random.Generator, settings: Settings
) -> tuple[np.ndarray, list[float]]:
    """Coefficients, shape (d, q), of single labels and of groups added, and the losses by round.

    Makes |X(W + M) - Z|^2 over centred rows + 2 beta |W|_1 + gamma sum over label groups of the
    lengths of M's rows + what `RowGroup` says of Z small: W by an accelerated proximal step, M by
    reweighted least squares, Z row group by row group.
    """
    x = features - features.mean(axis=0)
    gram = x.T @ x
    lipschitz = np.sqrt(2.0) * np.linalg.norm(gram, 2)
    groups = members(kmeans(labels.T, settings.label_groups, rng))
    rows = [
        RowGroup(own, labels[own], len(labels), settings)
        for own in members(kmeans(features, settings.row_groups, rng))
    ]
    shape = features.shape[1], labels.shape[1]
    m, single = rng.random(shape), rng.random(shape)
    before, z = single, labels.astype(np.float64)
    pace = last_pace = 1.0
    losses: list[float] = []
    for _ in range(settings.rounds):
        product = x.T @ z
        ahead = single + (last_pace - 1.0) / pace * (single - before)
        step = ahead - (gram @ (ahead + m) - product) / lipschitz
        last_pace, pace = pace, (1.0 + np.sqrt(4.0 * pace**2 + 1.0)) / 2.0
        before, single = single, soft(step, settings.sparse / lipschitz)
        for group in groups:
            left = product[:, group] - gram @ single[:, group]
            m[:, group] = shared(gram, left, m[:, group], settings.shared)
        for own in rows:
            z[own.rows] = own.corrected(x[own.rows] @ (single + m))
        residual = x @ (single + m) - (z - z.mean(axis=0))
        lengths = sum(np.linalg.norm(m[:, group], axis=1).sum() for group in groups)
        loss = np.sum(residual**2) + sum(own.loss(z[own.rows]) for own in rows)
        losses.append(
            float(loss + 2.0 * settings.sparse * np.abs(single).sum() + settings.shared * lengths)
        )
        if len(losses) > 1 and abs(losses[-2] - losses[-1]) <= settings.margin * losses[-2]:
            break
    return single + m, losses


def soft(values: np.ndarray, threshold: float) -> np.ndarray:
    """Nearer to zero by the threshold."""
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)


def shared(gram: np.ndarray, product: np.ndarray, now: np.ndarray, weight: float) -> np.ndarray:
    """One reweighted ridge step for the least |Xm|^2 / 2 - tr(m'product) + weight / 2 |rows of m|.

    Args:
        gram: X'X, shape (d, d).
        product: Shape (d, g).
        now: The coefficients so far, shape (d, g).
        weight: Of the sum of their rows' lengths.
    """
    ridge = 0.5 * weight / np.sqrt(np.sum(now**2, axis=1) + EPSILON)
    return solve(gram + np.diag(ridge + EPSILON), product, assume_a="pos")


class RowGroup:
    """Corrected labels of alike rows: alpha |Z - mean|^2 by row, + |Z G - Y|^2.

    A row counts by the cosine of its labels with the group's mean; G mixes labels by their cosines
    in the group. A group of one row keeps its labels.
    """

    def __init__(self, rows: np.ndarray, labels: np.ndarray, n: int, settings: Settings) -> None:
        self.rows = rows
        self._labels = labels.astype(np.float64)
        self._mean = self._labels.mean(axis=0)
        alone = len(rows) == 1
        weight = np.ones(1) if alone else cosines(self._labels, self._mean[None])[:, 0]
        self._weight = settings.loyalty * weight
        alike = cosines(self._labels.T, self._labels.T)
        mixing = (1.0 - settings.borrowed) * np.eye(len(alike)) + settings.borrowed * alike
        self._mixing = mixing
        centre = np.eye(len(rows)) - 1.0 / n  # the group's block of the matrix that centres all
        self._centre = centre
        self._left = np.linalg.eigh(centre + np.diag(self._weight))
        self._right = np.linalg.eigh(mixing @ mixing.T)
        self._alone = alone

    def corrected(self, fitted: np.ndarray) -> np.ndarray:
        """The labels of least loss beside what the features say, shape as ``fitted``.

        A Sylvester equation of two symmetric matrices, by their eigenvectors.
        """
        if self._alone:
            return self._labels
        wanted = (
            self._centre @ fitted
            + self._weight[:, None] * self._mean
            + self._labels @ self._mixing.T
        )
        (a, left), (b, right) = self._left, self._right
        return left @ ((left.T @ wanted @ right) / (a[:, None] + b)) @ right.T

    def loss(self, labels: np.ndarray) -> float:
        """What these corrected labels cost."""
        away = np.sum(self._weight[:, None] * (labels - self._mean) ** 2)
        return float(away + np.sum((labels @ self._mixing - self._labels) ** 2))


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of every row of one with every row of the other; 0 with a row of zeros."""
    inner = left @ right.T
    length = np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1))
    return np.divide(inner, length, out=np.zeros_like(inner), where=length > 0.0)


def kmeans(rows: np.ndarray, groups: int, rng: np.random.Generator) -> np.ndarray:
    """Group of every row, by k-means from one start; no more groups than different rows."""
    different = len(np.unique(rows, axis=0))
    seed = int(rng.integers(2**31))
    found = KMeans(min(groups, different), n_init=1, random_state=seed).fit(rows)
    return found.labels_


def members(groups: np.ndarray) -> list[np.ndarray]:
    """Positions by group."""
    return [np.flatnonzero(groups == group) for group in np.unique(groups)]
