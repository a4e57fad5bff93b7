"""Whether the rows that an effect leaves out differ from the others, at one site.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.sites.compute.pooled.blur import SPREAD, Blur
from cipherdag.sites.compute.pooled.own_effects import EFFECT_NOISE_SE
from cipherdag.sites.compute.pooled.refutation.drawn_rows import Rows


def left_out_answer(
    question: EffectSums,
    codes: NDArray[np.integer] | None,
    values: NDArray[np.float64] | None,
    *,
    least: int,
    blur: Blur,
) -> FloatVector:
    """The answer to the stage ``missing``.

    Of the rows that have the treatment, and of those that have the outcome: how far the sum of it
    over incomplete rows is from what it would be of as many rows drawn by chance, the variance of
    that, how many these are, and whether the site tells it. Where small counts stay, rows that miss
    a value of any column are incomplete, as they are left out there.

    Args:
        question: The question.
        codes: Codes of all rows, shape (n, p), negative where missing; None without categories.
        values: Numbers, shape (n, p), NaN where missing; None without numbers.
        least: Smallest count that may leave.
        blur: What moves the numbers of a site where that is more than 1.

    Source: Agresti, Categorical Data Analysis, 8.4 (the hypergeometric variance).
    """
    rows, found = Rows(codes, values), np.zeros((4, 2))
    columns = range(len(question.categories)) if least > 1 else question.named
    complete = ~np.logical_or.reduce([np.isnan(rows.column(question, v)) for v in columns])
    for place, variable in enumerate((question.treatment, question.outcome)):
        own = rows.column(question, variable)
        known = ~np.isnan(own)
        own, left = own[known], ~complete[known]
        if not question.categories[variable]:
            origin, unit = question.origin_array()[variable], question.unit_array()[variable]
            own = np.ldexp(own - origin, -int(unit))
        n, m = len(own), int(left.sum())
        if not 0 < m < n or _fewest(own, left, question.categories[variable]) < least:
            continue
        about = own - own.mean()
        away = float(about[left].sum())
        variance = float(about @ about) * m * (n - m) / (n * (n - 1))
        if least > 1:
            moved = blur.uniform(b"left out" + blur.column(variable), (2,))
            moved[0] *= blur.sign(variable) if question.categories[variable] else 1.0
            away += EFFECT_NOISE_SE * float(moved[0]) * variance**0.5
            variance *= 1.0 + SPREAD * float(moved[1])
        if variance > 0.0:
            found[:, place] = away, variance, m, 1.0
    return found.ravel()


def _fewest(own: FloatVector, left: BoolVector, categories: int) -> int:
    """The smallest count but 0 of the table of a variable by who is left out."""
    cells = left * max(categories, 1) + (own if categories else 0.0)
    counts = np.bincount(cells.astype(np.int64))
    return int(counts[counts > 0].min())
