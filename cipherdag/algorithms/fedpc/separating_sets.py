"""How FedPC chooses separating sets from what sites say of every candidate (section 3.2.2).

Leaks:
    See `FedPC`: the best p-value on the grid and its set, or sums over the sites per candidate.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.comparison import secure_max, secure_min
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Question
from cipherdag.questions.separators import (
    BestIndexPrecedes,
    BestScoreExceeds,
    CandidateScores,
    SeparatorSearch,
)
from cipherdag.questions.threshold import sum_with_threshold

SLICE = 250_000
UNDECIDED = -2


def by_maximum(
    search: SeparatorSearch, present: Presence
) -> Generator[Question, FloatVector, tuple[IndexArray, FloatVector]]:
    """Highest score over all sites, then the first candidate attaining it (phase 3).

    Returns:
        The candidate of every pair, -1 for none and -2 where a site left on the way and the others
        do not tell; and its score.
    """
    groups = search.n_groups
    top = np.full(groups, search.top_score, dtype=np.int64)
    peaks = yield from secure_max(
        lambda t: BestScoreExceeds(search=search, thresholds=pack_integers(t)),
        top,
        present=present,
    )
    doubtful = peaks < 0
    peaks = np.maximum(peaks, 0)
    candidates = search.candidates()
    totals = [candidates.total(g) if peaks[g] else 0 for g in range(groups)]
    index = yield from secure_min(
        lambda t: BestIndexPrecedes(
            search=search, thresholds=pack_integers(t), peaks=pack_integers(peaks)
        ),
        np.array(totals, dtype=np.int64),
        present=present,
    )
    # none of the sites still there attains a peak that was another's
    doubtful |= (peaks > 0) & ((index < 0) | (index >= totals))
    chosen = np.where(doubtful, UNDECIDED, np.where(peaks > 0, index, -1))
    return chosen, np.ldexp(peaks - 1.0, -search.grid_bits)


def by_scores(
    search: SeparatorSearch, score: Literal["mean", "vote"], present: Presence, fewest: int
) -> Generator[Question, FloatVector, tuple[IndexArray, FloatVector]]:
    """Highest mean p or most votes; ties go to the first candidate (section 5)."""
    candidates = search.candidates()
    totals = np.array([candidates.total(g) for g in range(search.n_groups)], dtype=np.int64)
    scores = yield from _all_scores(search, score, int(totals.sum()), present, fewest)
    index = np.full(search.n_groups, -1, dtype=np.int64)
    support = np.zeros(search.n_groups)
    least = search.test.alpha if score == "mean" else 0.0
    for group, (start, total) in enumerate(zip(np.cumsum(totals) - totals, totals, strict=True)):
        own = scores[start : start + total]
        best = int(own.argmax()) if total else 0
        if total and own[best] > least:
            index[group], support[group] = best, own[best]
    return index, support


def _all_scores(
    search: SeparatorSearch,
    score: Literal["mean", "vote"],
    total: int,
    present: Presence,
    fewest: int,
) -> Generator[Question, FloatVector, FloatVector]:
    parts: list[FloatVector] = [np.zeros(0)]
    voters = 0
    for first in range(0, total, SLICE):
        count = min(SLICE, total - first)
        question = CandidateScores(search=search, first=first, count=count, score=score)
        # a vote is every site's
        sums = yield from sum_with_threshold(question, fewest if score == "mean" else 1)
        if score == "mean":
            # Eq. 1 of FedCMFS: sum n_k p_k / sum n_k over the sites whose test is reliable
            weighted, rows = sums[:count], sums[count:]
            sums = np.divide(weighted, rows, out=np.zeros(count), where=rows > 0)
        else:
            # votes of fewer sites count for as many as in the first round
            voters = voters or present.n_sites
            sums = sums * (voters / present.n_sites)
        parts.append(sums)
    return np.concatenate(parts)
