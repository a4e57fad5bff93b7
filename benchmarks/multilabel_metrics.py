"""The six metrics of the FedCMFS paper (section 5.2, Eq. 3 to 8), as scikit-learn defines them."""

from __future__ import annotations

import numpy as np
from sklearn import metrics

METRICS = {
    "average_precision": True,
    "coverage": False,
    "hamming_loss": False,
    "ranking_loss": False,
    "macro_f1": True,
    "micro_f1": True,
}
"""Whether larger is better."""


def six_metrics(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """All six metrics of predicted probabilities.

    Args:
        labels: 0/1, shape (n, q).
        probabilities: Shape (n, q); a label is predicted above 0.5.

    Returns:
        The metrics by name. Coverage counts the steps from the first rank, divided by q; a row
        without labels takes none.
    """
    predicted = probabilities > 0.5
    some = labels.any(axis=1)
    steps = metrics.coverage_error(labels[some], probabilities[some]) - 1.0 if some.any() else 0.0
    return {
        "average_precision": average_precision(labels, probabilities),
        "coverage": steps * some.mean() / labels.shape[1],
        "hamming_loss": metrics.hamming_loss(labels, predicted),
        "ranking_loss": metrics.label_ranking_loss(labels, probabilities),
        "macro_f1": metrics.f1_score(labels, predicted, average="macro", zero_division=0),
        "micro_f1": metrics.f1_score(labels, predicted, average="micro", zero_division=0),
    }


def average_precision(labels: np.ndarray, scores: np.ndarray) -> float:
    """Scikit-learn's label_ranking_average_precision_score, all rows at once."""
    relevant = labels.astype(bool)
    ahead = scores[:, :, None] >= scores[:, None, :]  # (n, label, another label)
    rank = ahead.sum(axis=1)
    hits = (ahead & relevant[:, :, None]).sum(axis=1)
    n_relevant = relevant.sum(axis=1)
    share = np.where(relevant, hits / rank, 0.0).sum(axis=1) / np.maximum(n_relevant, 1)
    return float(np.where((n_relevant == 0) | relevant.all(axis=1), 1.0, share).mean())
