"""A site's log likelihoods of sets of columns, for scores that need no tables.

Sources: Miller, "Note on the bias of information estimates" (1955), for tables; of correlations,
E ln(1 - R**2) is about -k / n for k predictors that explain nothing.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import MixedTypesError
from cipherdag.questions.likelihoods import LogLikelihoods
from cipherdag.sites.compute.counting.counter import DiscreteColumns
from cipherdag.sites.compute.device import DEFAULT_MEMORY
from cipherdag.sites.compute.left_out import tell_left_out
from cipherdag.sites.compute.pooled.cell_keys import CellKeys

LEAST_DETERMINANT = -23.0
"""Log, per variable: less is a variable that the others determine."""
BATCH = 4096
LOGLIK_NOISE_NATS = 1.0
"""Largest noise, either way, that a site which restricts small counts adds to a log likelihood."""
ROUNDED_BITS = 20
"""Likelihoods that agree to so many bits below one have the same noise, whatever the rounding."""


def likelihoods_answer(
    question: LogLikelihoods,
    site: SetLikelihoods,
    *,
    noise: CellKeys | None,
    parent: SetLikelihoods | None = None,
) -> FloatVector:
    """The answer to `LogLikelihoods`.

    What moves a number follows from the number itself without the discount, so that sets which
    split the rows in the same way, in whichever run, are one equation and not many.

    Args:
        question: Which sets.
        site: Of the site's rows.
        noise: What perturbs numbers; None: nothing does.
        parent: Of the rows that these were drawn from, if they were: a mean over replicates is
            moved as these are, and a difference of two by the further noise of the drawn rows.
    """
    sets = question.sets()
    answer = site.answer(sets, question.discount)
    if noise is None or not len(answer):
        return answer
    answer = answer + likelihood_noise(noise, b"likelihood", (parent or site).answer(sets, 0))
    return (
        answer
        if parent is None
        else answer + likelihood_noise(noise, b"drawn", site.answer(sets, 0))
    )


def likelihood_noise(cell_keys: CellKeys, about: bytes, likelihoods: FloatVector) -> FloatVector:
    """Noise of up to `LOGLIK_NOISE_NATS` nats; equal likelihoods have equal noise.

    Args:
        cell_keys: Of the site's rows.
        about: What the numbers are.
        likelihoods: Exact, and without a discount or penalty, in nats or bits.
    """
    rounded = np.rint(np.ldexp(likelihoods, ROUNDED_BITS)).astype("<i8")
    _, drawn = cell_keys.noise([about + one.tobytes() for one in rounded], [1] * len(rounded))
    return LOGLIK_NOISE_NATS * drawn


class SetLikelihoods:
    """Log likelihoods of sets of columns of one type, corrected for what chance alone explains.

    Args:
        codes: Codes, shape (n, p), negative where missing; None of numbers.
        values: Numbers, shape (n, p), NaN where missing; None of categories.
        categories: Number of categories of every variable, shape (p,).
        device: Where to count.
        min_cell_size: Rows below which a category is collapsed into another one.
        parent: Codes of the rows that these were drawn from, if they were: what is rare there is
            rare here.
        resampled: Whether these rows were resampled from others, whose gaps were logged.

    Raises:
        MixedTypesError: There are columns of both types.
    """

    def __init__(
        self,
        codes: NDArray[np.integer] | None,
        values: NDArray[np.float64] | None,
        categories: IndexArray,
        device: torch.device,
        *,
        min_cell_size: int = 0,
        parent: NDArray[np.integer] | None = None,
        resampled: bool = False,
    ) -> None:
        if codes is not None and values is not None:
            raise MixedTypesError("likelihoods of sets take columns of one type")
        self._categories = categories
        self._discrete = codes is not None
        if codes is not None:
            whole = codes[(codes >= 0).all(axis=1)]
            rows, self._rows = len(codes), len(whole)
            if min_cell_size > 1:
                collapse_rare_codes(
                    whole, whole if parent is None else parent, categories, min_cell_size
                )
            self._columns = DiscreteColumns(
                whole, device, memory_bytes=DEFAULT_MEMORY // 2, levels=categories
            )
        else:
            assert values is not None, "a table has codes or values"
            complete = values[~np.isnan(values).any(axis=1)]
            rows, self._rows = len(values), len(complete)
            self._correlations = _correlations(complete)
        if not resampled:
            tell_left_out(rows, self._rows)

    def answer(self, sets: Sequence[IndexArray], discount: int) -> FloatVector:
        """Log likelihood of each set, of positions by size (B_k, k); see `LogLikelihoods`."""
        compute = self._of_tables if self._discrete else self._of_numbers
        return np.concatenate(
            [np.zeros(0), *(compute(rows, discount) for rows in sets if len(rows))]
        )

    def _of_tables(self, rows: IndexArray, discount: int) -> FloatVector:
        sizes = self._categories[rows].prod(axis=1)
        return np.concatenate(
            [
                of_tables(counts, sizes[piece], discount)
                for piece, counts in self._columns.whole_tables(rows)
            ]
        )

    def _of_numbers(self, rows: IndexArray, discount: int) -> FloatVector:
        size = rows.shape[1]
        chance = discount * size * (size - 1) / 4.0 if self._rows > size else 0.0
        batches = []
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            _, log_determinant = np.linalg.slogdet(
                self._correlations[batch[:, :, None], batch[:, None]]
            )
            explained = np.clip(log_determinant, LEAST_DETERMINANT * size, 0.0)
            batches.append(-0.5 * self._rows * explained - chance)
        return np.concatenate(batches)


def collapse_rare_codes(
    codes: NDArray[np.integer],
    parent: NDArray[np.integer],
    categories: IndexArray,
    min_cell_size: int,
) -> None:
    """Recode rare categories into a neighbouring one, column by column, in place.

    Args:
        codes: Codes of rows that miss no value, shape (n, p).
        parent: Of the rows that these were drawn from, or the same.
        categories: Number of categories of every variable, shape (p,).
        min_cell_size: Rows below which a category is rare, see `collapse_rare_categories`.
    """
    for v, size in enumerate(categories.tolist()):
        column, whole = codes[:, v], parent[:, v]
        counts = np.bincount(column, minlength=size)
        drawn_from = np.bincount(whole[whole >= 0], minlength=size)
        codes[:, v] = collapse_rare_categories(np.minimum(counts, drawn_from), min_cell_size)[
            column
        ]


def of_tables(counts: IndexArray, sizes: IndexArray, discount: int) -> FloatVector:
    """Log likelihoods of tables, corrected for chance, shape (B,).

    Args:
        counts: Cells of all tables, one after the other.
        sizes: How many of these every table has, shape (B,).
        discount: See `LogLikelihoods`.
    """
    starts = np.cumsum(sizes) - sizes
    numbers = counts.astype(np.float64)
    rows = np.maximum(np.add.reduceat(numbers, starts), 1.0)
    terms = numbers * np.log(np.maximum(numbers, 1.0) / np.repeat(rows, sizes))
    filled = np.add.reduceat((counts > 0).astype(np.float64), starts)
    chance = discount * np.maximum(filled - 1.0, 0.0) / 2.0
    return np.add.reduceat(terms, starts) - chance


def _correlations(values: NDArray[np.float64]) -> FloatVector:
    """Correlations, shape (p, p); 0 with a column that does not vary."""
    centred = values - values.mean(axis=0) if len(values) else values
    deviation = np.sqrt((centred**2).sum(axis=0))
    varies = deviation > 0.0
    scaled = np.where(varies, centred / np.where(varies, deviation, 1.0), 0.0)
    matrix: FloatVector = scaled.T @ scaled
    np.fill_diagonal(matrix, 1.0)
    return matrix


def collapse_rare_categories(counts: IndexArray, min_cell_size: int) -> IndexArray:
    """Recode each rare category into the one below, and the lowest into the one above.

    Args:
        counts: Rows of every category.
        min_cell_size: Fewest rows of one that counts by itself.
    """
    left, into = counts.copy(), np.arange(len(counts))
    for code in range(len(counts) - 1, 0, -1):
        if 0 < left[code] < min_cell_size:
            left[code - 1] += left[code]
            left[code] = 0
            into[into == code] = code - 1
    above = np.flatnonzero(left[1:]) + 1
    if 0 < left[0] < min_cell_size and len(above):
        into[into == 0] = above[0]
    return into
