"""Score tests of categories where rows are visits, and the scores of single rows of regressions.

See `cipherdag.sites.compute.patients` for what is added to variances.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatArray, FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.scores.score_test import most_spread
from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.patients import Patients, Repeats
from cipherdag.sites.compute.score_tests.tables import (
    Margins,
    TableMoments,
    cells_of,
    component_weights,
    forms_of,
    normal_score,
)
from cipherdag.statistics.contingency import LEAST_EXPECTED, TableForms


class _Excess(NamedTuple):
    """What O adds to a and to f^2, the site's normal score with 1, and directions of scores."""

    mean: float
    squared: float
    site_score: FloatVector
    directions: float = 1.0


@dataclass(frozen=True, slots=True)
class TableVisits:
    """Tests of one site's categories whose rows are visits of ``patients``.

    ``n_rows`` are those of all sites, and ``visits`` the most rows of a patient at any of them.
    """

    patients: Patients
    columns: DiscreteColumns
    n_rows: int
    visits: int

    def corrected(self, tests: IndexArray, moments: TableMoments) -> TableMoments:
        """The moments of tests (x, y, s1, ..., sl) of one shape with O; 0 if too few patients."""
        scores, means, spreads, rows, site_scores = (part.copy() for part in moments)
        for number in np.flatnonzero(rows > 0.0).tolist():
            codes, complete = self.columns.codes_and_rows(tests[number])
            repeats = self.patients.repeats(complete)
            if not repeats.enough():
                scores[number], site_scores[:, number] = 0.0, 0.0
                means[number] = spreads[number] = rows[number] = 0.0
            elif len(repeats.rows):
                more = self._excess(codes, repeats, self.columns.levels[tests[number, :2]].tolist())
                means[number] += more.mean
                most = most_spread(means[number], self.visits)
                # directions of even size have the least f
                least = means[number] ** 2 / more.directions
                squared = max(spreads[number] ** 2 + more.squared, least)
                spreads[number] = min(math.sqrt(squared), most)
                site_scores[:, number] = more.site_score
        return TableMoments(scores, means, spreads, rows, site_scores)

    def _excess(self, codes: IndexArray, repeats: Repeats, levels: list[int]) -> _Excess:
        # of two categories the first is the one component
        sides = [1 if each == 2 else each for each in levels]  # noqa: PLR2004
        strata, stratum = np.unique(codes[:, 2:], axis=0, return_inverse=True)
        joint = (codes[:, 0] * levels[1] + codes[:, 1]) * len(strata) + stratum.ravel()
        shape = *levels, len(strata)
        counts = np.bincount(joint, minlength=levels[0] * levels[1] * len(strata)).reshape(shape)
        varies = (counts.any(axis=1).sum(axis=0) > 1) & (counts.any(axis=0).sum(axis=0) > 1)
        counts = counts[:, :, varies].astype(np.float64)
        margins = Margins.of(counts, *sides)
        values = cells_of(counts, margins)
        at = (np.cumsum(varies) - 1)[stratum.ravel()]
        of_x, of_y = (
            (codes[:, side][:, None] == np.arange(sides[side])) - margin[:, at].T
            for side, margin in enumerate((margins.x / margins.total, margins.y / margins.total))
        )
        terms = (of_x[:, :, None] * of_y[:, None]).reshape(len(codes), -1)
        terms *= varies[stratum.ravel()][:, None]
        score = self._site_score(values, terms, at, repeats)
        variances = values[1].sum(axis=2).ravel()
        if len(variances) == 1:
            return _Excess(float(repeats.sums(terms).beyond(variances)[0]), 0.0, score)
        of_x, of_y = component_weights(margins, np.array([counts.shape[2]]), self.n_rows)
        weights = (of_x * of_y.T / self.n_rows).ravel()
        weighted, covariances = terms * np.sqrt(weights), _covariances(margins, weights)
        share, sums = len(codes) / self.n_rows, repeats.sums(weighted)
        rare = float((weights**2 * variances).sum()) * share
        squared = repeats.squared(weighted, covariances, share, rare)
        seen_x, seen_y = ((counts.any(axis=(1 - side, 2))).sum() for side in (0, 1))
        directions = float((seen_x - 1) * (seen_y - 1))
        return _Excess(sums.beyond_all(variances * weights), squared, score, directions)

    @staticmethod
    def _site_score(
        values: FloatArray, terms: FloatMatrix, at: IndexArray, repeats: Repeats
    ) -> FloatVector:
        """The site's normal score and 1; its form is divided by what O adds to the mean, if any."""
        forms = forms_of(values)
        total = TableForms(*(np.array([part.sum()]) for part in forms))
        if not total.mean[0] > 0.0:
            return np.zeros(2)
        root = (forms.mean > 0.0) / np.sqrt(np.maximum(values[2], LEAST_EXPECTED))
        at = at[repeats.rows]
        scaled = terms[repeats.rows] * root.reshape(terms.shape[1], -1)[:, at].T
        owner = np.repeat(np.arange(len(repeats.first)), np.diff(repeats.first, append=len(at)))
        order = np.lexsort((at, owner))
        keys = owner[order] * (int(at.max(initial=0)) + 1) + at[order]
        whole = np.add.reduceat(scaled[order], np.flatnonzero(np.diff(keys, prepend=-1)))
        more = repeats.factor() * float((whole**2).sum() - (scaled**2).sum())
        form = total.form * total.mean / (total.mean + max(more, 0.0))
        return np.asarray(normal_score(*total._replace(form=form).scaled())[:, 0])


def _covariances(margins: Margins, weights: FloatVector) -> FloatMatrix:
    """Null covariances of a test's weighted components, summed over strata, shape (K, K)."""
    of_x, of_y = (
        np.eye(len(side))[:, :, None] * (side * margins.total)[:, None] - side[:, None] * side
        for side in (margins.x, margins.y)
    )
    whole = np.einsum("acs,bds,s->abcd", of_x, of_y, margins.scale, optimize=True)
    root = np.sqrt(weights)
    return np.asarray(root[:, None] * whole.reshape(len(root), -1) * root)


def row_scores(
    design: FloatMatrix,
    response: FloatVector,
    coefficients: FloatVector,
    categories: int,
    *,
    ordered: bool,
) -> FloatMatrix:
    """The derivatives of each row's log likelihood by the coefficients, shape (n, coefficients).

    The design, shape (n, d), has the constant first, and the response codes; coefficients are those
    of `model_step`. If ``ordered``, categories have proportional odds.
    """
    from scipy.special import expit, softmax

    if not ordered:
        logits = design @ coefficients.reshape(-1, design.shape[1]).T
        chance = softmax(np.column_stack([np.zeros(len(design)), logits]), axis=1)[:, 1:]
        left = (response[:, None] == np.arange(1, chance.shape[1] + 1)) - chance
        return np.asarray((left[:, :, None] * design[:, None]).reshape(len(design), -1))
    thresholds, slopes = np.split(coefficients, [categories - 1])
    bounds, codes = np.concatenate([[-np.inf], thresholds, [np.inf]]), response.astype(np.int64)
    offsets = design[:, 1:] @ slopes
    below, above = expit(bounds[codes] - offsets), expit(bounds[codes + 1] - offsets)
    chance = np.maximum(above - below, np.finfo(np.float64).tiny)
    lower, upper = -below * (1.0 - below) / chance, above * (1.0 - above) / chance
    by_threshold = np.zeros((len(codes), categories + 1))
    rows = np.arange(len(codes))
    by_threshold[rows, codes], by_threshold[rows, codes + 1] = lower, upper
    return np.column_stack([by_threshold[:, 1:-1], -(lower + upper)[:, None] * design[:, 1:]])
