"""How often every value of a column occurs over tables, and which columns hold one value only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.table.cells import Cells, NumberCells, TextCells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import LARGEST_EXACT, is_plain_number, normalise_value, number_text

FEWEST_LACKING = 3
"""Fewest sites that may lack the same columns, as a rule; see docs/adr/0027."""
_MOST_VALUES = 16
"""Allows for one value and words for missing ones; a column with more varies."""


@dataclass(frozen=True, slots=True, repr=False)
class Numbers:
    """A column's distinct finite numbers, ascending, rows of each, (m,), and if any is missing."""

    distinct: NDArray[np.float64]
    counts: NDArray[np.int64]
    gaps: bool

    @property
    def whole(self) -> bool:
        """True if all are whole numbers that floats represent exactly."""
        exact = np.abs(self.distinct) <= LARGEST_EXACT
        return bool((exact & (self.distinct == np.floor(self.distinct))).all())


@dataclass(slots=True, repr=False)
class ColumnTally:
    """The values of one column of several tables."""

    _texts: Counter[str] = field(default_factory=Counter)
    _numbers: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = field(default_factory=list)

    @property
    def texts(self) -> Iterable[str]:
        """The different cells that are text, as they are written."""
        return self._texts

    def add(self, cells: Cells) -> None:
        """Count some rows more."""
        if isinstance(cells, NumberCells):
            distinct, counts = np.unique(cells.values, return_counts=True)
            self._numbers.append((distinct, counts.astype(np.int64)))
        else:
            _count(cells, self._texts)

    def join(self, other: ColumnTally) -> None:
        """Count what another has counted, too."""
        self._texts.update(other._texts)
        self._numbers += other._numbers

    def few_values(self, most: int) -> frozenset[str] | None:
        """The values in normal form, with "" for a missing one; None if more than ``most``."""
        many = bool(self._numbers) and len(self._distinct()[0]) > most
        if many or len(self._texts) > most:
            return None
        return frozenset(self.values())

    def numbers(self, fewest: int) -> Numbers | None:
        """The numbers if no cell is text and ``fewest`` or more differ, all finite; else None."""
        if self._texts or not self._numbers:
            return None
        distinct, counts = self._distinct()
        present = ~np.isnan(distinct)
        if present.sum() < fewest or np.isinf(distinct).any():
            return None
        return Numbers(distinct[present], counts[present], gaps=not present.all())

    def values(self) -> Counter[str]:
        """The frequency of every value in normal form, with "" for a missing one."""
        occurrences: Counter[str] = Counter()
        for text, times in self._texts.items():
            occurrences[normalise_value(text)] += times
        if self._numbers:
            distinct, counts = self._distinct()
            for value, times in zip(distinct.tolist(), counts.tolist(), strict=True):
                occurrences[normalise_value(number_text(value))] += times
        return occurrences

    def _distinct(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The different numbers of all tables, NaN the last, and how often each occurs."""
        if len(self._numbers) > 1:
            values, times = (np.concatenate(each) for each in zip(*self._numbers, strict=True))
            distinct, inverse = np.unique(values, return_inverse=True)
            counts = np.zeros(len(distinct), dtype=np.int64)
            np.add.at(counts, inverse, times)
            self._numbers = [(distinct, counts)]
        return self._numbers[0]


def _count(cells: TextCells, counter: Counter[str]) -> None:
    texts = cells.notation.categories(cells.texts)
    if cells.index is None:
        counter.update(texts)
        return
    repeats = np.bincount(cells.index, minlength=len(texts))
    for text, times in zip(texts, repeats.tolist(), strict=True):
        counter[text] += times


@dataclass(frozen=True, slots=True, repr=False)
class Held:
    """The values of one column in table ``number``, from 1; None if they are many."""

    number: int
    values: frozenset[str] | None

    def varies(self, column: Column) -> bool:
        """True if it has two values that the column does not take as missing."""
        if self.values is None:
            return True
        left = self.values - {"", *column.missing}
        if column.kind == "continuous" and all(map(is_plain_number, left)):
            return len({float(each) for each in left}) > 1
        return len(left) > 1


def held_by(tally: ColumnTally, number: int) -> Held:
    """The content of one column in one table."""
    return Held(number, tally.few_values(_MOST_VALUES))


def without_constant(column: Column, held: Sequence[Held]) -> Column:
    """The column of a draft, changed so that a run over these tables does not stop at it.

    It is ignored if it varies in no table, as a site's name does not, and gets ``allow_constant``
    if it varies in some; its comment says so.
    """
    constant = [each for each in held if not each.varies(column)]
    if column.kind in ("ignore", "intervention") or not constant:
        return column
    if len(constant) == len(held):
        why = "Ignored: it holds one value only, or none, in each file."
        return replace(column, kind="ignore", categories=(), ordered=False, comment=why)
    where = ", ".join(str(each.number) for each in constant)
    said = (
        f"In file {where} of those drafted from it holds one value only, or none, which "
        "allow_constant permits. Was it measured there, and in the same way?"
    )
    return replace(column, allow_constant=True, comment=f"{column.comment} LOOK: {said}".strip())


def without_lacked(
    column: Column, lacked: Mapping[str, Sequence[int]], called: Sequence[str]
) -> Column:
    """The column, ignored if tables lack it: numbers from 1 in ``lacked``, files in ``called``."""
    if column.name not in lacked or column.kind == "ignore":
        return column
    files = [called[number - 1] for number in lacked[column.name]]
    sites = ", ".join(f'"{file.split(".")[0]}"' for file in files)
    listed = ", ".join(json.dumps(each, ensure_ascii=False) for each in column.categories)
    kind = f'kind = "{column.kind}"' + (f", categories = [{listed}]" if listed else "")
    said = (
        f"Ignored: {' and '.join(files)} lack{'s' * (len(files) == 1)} it. LOOK: if it has another "
        f'name there, write rename."THAT NAME" = "{column.name}" under [sources."FILE"] of '
        f"the file. If it was not measured there, write {kind} and unmeasured_at = [{sites}]. "
        f"Where fewer than {FEWEST_LACKING} sites lack the same columns, `cipherdag schema "
        "overlap` leaves more out."
    )
    return replace(column, kind="ignore", categories=(), ordered=False, comment=said)


Values: TypeAlias = Numbers | Counter[str]
"""How many rows hold each value of a column, of numbers alone or not."""
