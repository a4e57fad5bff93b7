"""ML-KNN against a hand-worked example, and the metrics against the paper's formulas."""

import numpy as np
import pytest
from mlknn import MLKNN
from multilabel_metrics import METRICS, average_precision, six_metrics


def test_a_hand_worked_example():
    """Five rows on a line, k = 2: neighbours (1, 2), (0, 2), (1, 0), (4, 2), (3, 2)."""
    features = np.array([[0.0], [1.0], [2.1], [9.0], [10.0]])
    labels = np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    # label 0: neighbours with it 2, 2, 2 | 1, 1    label 1: 1, 1 | 0, 2, 2
    model = MLKNN(k=2, s=1.0).fit(features, labels)
    prior = (1 + 3) / (2 + 5)
    near = model.probabilities(np.array([[0.4]]))[0]  # neighbours 0 and 1: counts 2 and 0
    have = prior * (1 + 3) / (3 + 3)
    lack = (1 - prior) * (1 + 0) / (3 + 2)
    assert near[0] == pytest.approx(have / (have + lack))
    have = prior * (1 + 1) / (3 + 3)
    lack = (1 - prior) * (1 + 0) / (3 + 2)
    assert near[1] == pytest.approx(have / (have + lack))
    far = model.probabilities(np.array([[9.5]]))[0]  # neighbours 3 and 4: counts 0 and 2
    have = prior * (1 + 0) / (3 + 3)
    lack = (1 - prior) * (1 + 0) / (3 + 2)
    assert far[0] == pytest.approx(have / (have + lack))
    have = prior * (1 + 2) / (3 + 3)
    lack = (1 - prior) * (1 + 0) / (3 + 2)
    assert far[1] == pytest.approx(have / (have + lack))


def by_formula(labels, scores):
    """Average precision, coverage and ranking loss row by row (Eq. 3, 4, 6); no ties, no gaps."""
    precision, steps, wrong = [], [], []
    for y, f in zip(labels, scores, strict=True):
        rank = {label: 1 + int((f > f[label]).sum()) for label in range(len(y))}
        own, other = np.flatnonzero(y), np.flatnonzero(y == 0)
        precision.append(np.mean([sum(rank[b] <= rank[a] for b in own) / rank[a] for a in own]))
        steps.append((max(rank[a] for a in own) - 1) / len(y))
        wrong.append(np.mean([[f[a] <= f[b] for b in other] for a in own]))
    return np.mean(precision), np.mean(steps), np.mean(wrong)


def test_the_six_metrics_are_the_papers():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, (40, 6))
    labels[:, 0], labels[:, 1] = 1, 0
    scores = rng.random((40, 6))
    found = six_metrics(labels, scores)
    assert set(found) == set(METRICS)
    ranks = [found[name] for name in ("average_precision", "coverage", "ranking_loss")]
    assert ranks == pytest.approx(by_formula(labels, scores))
    predicted = scores > 0.5
    hits, errors = (predicted & (labels == 1)).sum(axis=0), (predicted != labels).sum(axis=0)
    assert found["hamming_loss"] == pytest.approx(errors.sum() / labels.size)
    assert found["micro_f1"] == pytest.approx(2 * hits.sum() / (2 * hits.sum() + errors.sum()))
    assert found["macro_f1"] == pytest.approx(np.mean(2 * hits / (2 * hits + errors)))


def test_a_row_without_labels_takes_no_step():
    labels = np.array([[0, 1, 0], [0, 0, 0]])
    found = six_metrics(labels, np.array([[0.9, 0.2, 0.1], [0.9, 0.2, 0.1]]))
    assert found["coverage"] == pytest.approx(1 / 3 / 2)


def test_the_quick_average_precision_is_scikit_learns():
    from sklearn.metrics import label_ranking_average_precision_score

    rng = np.random.default_rng(9)
    labels = rng.integers(0, 2, (60, 5))
    labels[:3], labels[3:6] = 0, 1
    scores = rng.integers(0, 4, (60, 5)) / 4  # with ties
    expected = label_ranking_average_precision_score(labels, scores)
    assert average_precision(labels, scores) == pytest.approx(expected)
