"""PDMFS: two rankings, of features with labels and of label-specific features with rows, merged.

Source: Miao, Wang, Cheng, Chen, "Parallel dual-channel multi-label feature selection", Soft
Computing 27 (2023) 7115-7130: Eq. 5, 6, 9 to 12 and Algorithm 1, settings of section 5.3.
Label-specific features are LLSF's (Huang et al., ICDM 2015; Eq. 7 and 8). The paper chooses LLSF's
alpha and beta by cross-validation among powers of 2; here they are the 2^8 of the authors'
published program (chengyshaq/PDMFS, commit f109e3d), and that program's order of a merged subset,
least redundant first, which the paper leaves open. Two things follow the paper where the program
does not: redundancy is mutual information (Eq. 6), not joint entropy, and LLSF sees training rows
only.
"""

from __future__ import annotations

import numpy as np

SHARES = (0.6, 0.3, 0.1)
"""What is sampled of every third of a ranking."""

ALPHA = BETA = 2.0**8
GAMMA = 1.0
STEPS = 100
MARGIN = 1e-4


def rank(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Columns, the best first, about half of all; ``rng`` is not used.

    Args:
        features: Shape (n, d).
        labels: 0/1, shape (n, q).
        rng: Source of randomness of comparators that need one.
    """
    del rng
    codes = halves(features)
    specific = label_specific(features, labels)
    channels = (
        np.argsort(-information(codes, labels).sum(axis=1), kind="stable"),
        np.argsort(-information(specific.T, labels.T).sum(axis=1), kind="stable"),
    )
    redundant = information(codes, codes)
    np.fill_diagonal(redundant, 0.0)
    return merge([subspaces(order, redundant) for order in channels], redundant)


def halves(features: np.ndarray) -> np.ndarray:
    """Every column cut at its median and largest value, as codes, shape (n, d)."""
    ordered = np.sort(features, axis=0)
    middle = ordered[round(len(ordered) / 2) - 1]
    return (features > middle).astype(np.int64)


def information(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Mutual information in bits of every column with every other's, shape (a, b).

    Args:
        left: Any values, of which equal ones are one, shape (n, a).
        right: Shape (n, b).
    """
    one, one_of = _members(left)
    other, other_of = _members(right)
    joint = one.T @ other / len(left)
    by_chance = np.outer(one.mean(axis=0), other.mean(axis=0))
    terms = joint * np.log2(np.divide(joint, by_chance, out=np.ones_like(joint), where=joint > 0))
    by_row = np.add.reduceat(terms, one_of, axis=0)
    return np.add.reduceat(by_row, other_of, axis=1)


def _members(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indicators of every value of every column side by side, and where each column's begin."""
    blocks = [own[:, None] == np.unique(own) for own in columns.T]
    starts = np.cumsum([0, *(block.shape[1] for block in blocks)])[:-1]
    return np.hstack(blocks).astype(np.float64), starts


def label_specific(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """LLSF's coefficients, shape (d, q), by its accelerated proximal gradient.

    Rows are scaled to length 1. Minimises |XW - Y|^2 / 2 + alpha tr(R W'W) / 2 + beta |W|_1, R one
    minus the cosine of two labels.
    """
    length = np.linalg.norm(features, axis=1, keepdims=True)
    x = features / np.where(length > 0.0, length, 1.0)
    gram, product = x.T @ x, x.T @ labels
    apart = ALPHA * (1.0 - _cosine(labels))
    lipschitz = np.sqrt(2.0 * (np.linalg.norm(gram, 2) ** 2 + np.linalg.norm(apart, 2) ** 2))
    now = before = np.linalg.solve(gram + GAMMA * np.eye(len(gram)), product)
    pace = last_pace = 1.0
    last = np.inf
    for _ in range(STEPS):
        ahead = now + (last_pace - 1.0) / pace * (now - before)
        step = ahead - (gram @ ahead - product + ahead @ apart) / lipschitz
        last_pace, pace = pace, (1.0 + np.sqrt(4.0 * pace**2 + 1.0)) / 2.0
        before, now = now, np.sign(step) * np.maximum(np.abs(step) - BETA / lipschitz, 0.0)
        loss = np.sum((x @ now - labels) ** 2) + np.sum((now @ apart) * now)
        loss += 2.0 * BETA * np.abs(now).sum()
        if abs(last - loss) <= MARGIN:
            break
        last = loss
    return now


def _cosine(labels: np.ndarray) -> np.ndarray:
    """Cosine of every two labels, shape (q, q); 0 with a label that no row has."""
    length = np.linalg.norm(labels, axis=0)
    length = np.where(length > 0.0, length, 1.0)
    return (labels.T @ labels) / np.outer(length, length)


def subspaces(order: np.ndarray, redundant: np.ndarray) -> list[np.ndarray]:
    """The least redundant of every third of a ranking, in equal parts (section 3.2)."""
    size = -(-len(order) // len(SHARES))
    chosen = []
    for at, share in enumerate(SHARES):
        own = order[at * size : (at + 1) * size]
        chosen.append(_least(own, redundant)[: int(np.ceil(len(own) * share))])
    return chosen


def merge(channels: list[list[np.ndarray]], redundant: np.ndarray) -> np.ndarray:
    """Subsets of equal rank in both channels side by side (Eq. 12), each column once."""
    merged: list[int] = []
    for level in zip(*channels, strict=True):
        own = np.unique(np.concatenate(level))
        merged += [v for v in _least(own, redundant).tolist() if v not in merged]
    return np.array(merged, dtype=np.int64)


def _least(columns: np.ndarray, redundant: np.ndarray) -> np.ndarray:
    """These columns, the least information with the others of them first (Eq. 6)."""
    return columns[np.argsort(redundant[np.ix_(columns, columns)].sum(axis=1), kind="stable")]
