"""ML-KNN, the classifier of multi-label benchmarks, over scikit-learn's nearest neighbours."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors


class MLKNN:
    """Labels of a row from how many of its nearest training rows have them.

    For every label, the number of the k neighbours that have it is evidence for the label; prior
    and likelihoods come from the training rows, each with its k nearest other training rows.

    Source: Zhang and Zhou, Pattern Recognition 40 (2007) 2038-2048, Fig. 1.

    Args:
        k: Number of neighbours, Euclidean.
        s: Smoothing; 1 is Laplace's.
    """

    def __init__(self, *, k: int = 10, s: float = 1.0) -> None:
        self._k = k
        self._s = s
        self._search = NearestNeighbors(n_neighbors=k, algorithm="brute")

    def fit(self, features: np.ndarray, labels: np.ndarray) -> MLKNN:
        """Learn from training rows.

        Args:
            features: Shape (n, d).
            labels: 0/1, shape (n, q).

        Returns:
            Itself.
        """
        self._labels = labels.astype(np.int64)
        self._search.fit(features)
        # without rows of its own the search leaves every row out of its own neighbours
        count = self._count(self._search.kneighbors(return_distance=False))
        s, k, (rows, n_labels) = self._s, self._k, labels.shape
        self._prior = (s + labels.sum(axis=0)) / (2 * s + rows)
        tables = np.zeros((2, k + 1, n_labels))
        for label in range(n_labels):
            cells = self._labels[:, label] * (k + 1) + count[:, label]
            tables[:, :, label] = np.bincount(cells, minlength=2 * (k + 1)).reshape(2, k + 1)
        self._likelihood = (s + tables) / (s * (k + 1) + tables.sum(axis=1, keepdims=True))
        return self

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Posterior probability of every label, shape (m, q); a label is predicted above 0.5."""
        count = self._count(self._search.kneighbors(features, return_distance=False))
        columns = np.arange(count.shape[1])
        with_label = self._prior * self._likelihood[1, count, columns]
        without = (1.0 - self._prior) * self._likelihood[0, count, columns]
        return with_label / (with_label + without)

    def _count(self, neighbours: np.ndarray) -> np.ndarray:
        """How many of these rows have every label, shape (m, q)."""
        return self._labels[neighbours].sum(axis=1)
