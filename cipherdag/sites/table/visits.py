"""Whose visit a row is: the patient's key as it is read, and which rows of a patient are used.

A key becomes a number as soon as it is read, and its text is forgotten: nothing that leaves, and no
line of a log, is made of it.
"""

import logging
from collections.abc import Callable

import numpy as np

from cipherdag.arrays import IndexArray
from cipherdag.sites.table.cells import Cells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import MISSING_CODE
from cipherdag.sites.table.names import normalise_value

MAX_VISITS = 50
"""Most rows of a patient that a site uses; with more, one patient could outweigh all others."""
log = logging.getLogger("cipherdag.data")


class PatientReader:
    """Turns the cells that say whose row it is into numbers; the texts are then forgotten."""

    def __init__(self, column: Column, position: int) -> None:
        self.position = position
        self._numbers: dict[str, int] = dict.fromkeys(("", *column.missing), MISSING_CODE)
        self._blocks: list[IndexArray] = []

    def read(self, cells: Cells) -> None:
        """Number the patients of a block in the order in which they come."""
        cells = cells.as_text()
        normal = (normalise_value(text) for text in cells.texts)
        numbers = [self._numbers.setdefault(text, len(self._numbers)) for text in normal]
        block = np.array(numbers, dtype=np.int64)
        self._blocks.append(block if cells.index is None else block[cells.index])

    def patients(self) -> IndexArray:
        """The patient of every row, from 0 in the order of rows; `MISSING_CODE` without one."""
        self._numbers.clear()
        whole = np.concatenate(self._blocks)
        return np.where(whole == MISSING_CODE, MISSING_CODE, numbered(whole))


def numbered(patients: IndexArray) -> IndexArray:
    """Numbers of patients anew, from 0 in the order of their first rows, shape (n,)."""
    _, first, which = np.unique(patients, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.ravel()]


def rows_of(patients: IndexArray, drawn: IndexArray) -> tuple[IndexArray, IndexArray]:
    """All rows of some patients, one drawn after the other, and which draw each is of, (r,) each.

    ``patients``, shape (n,), are numbers from 0 without a gap.
    """
    order, counts = np.argsort(patients, kind="stable"), np.bincount(patients)
    size = counts[drawn]
    whose = np.repeat(np.arange(len(drawn)), size)
    within = np.arange(len(whose)) - np.repeat(np.cumsum(size) - size, size)
    return order[(np.cumsum(counts) - counts)[drawn][whose] + within], whose


def rows_taken(
    patients: IndexArray, location_of: Callable[[int], str], *, site: str | None
) -> IndexArray:
    """Positions of the first `MAX_VISITS` rows of each patient; the log counts the others."""
    order = np.argsort(patients, kind="stable")
    first = np.flatnonzero(np.diff(patients[order], prepend=MISSING_CODE - 1))
    visit = np.empty(len(patients), dtype=np.int64)
    visit[order] = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    without = patients == MISSING_CODE
    beyond = (visit >= MAX_VISITS) & ~without
    for left_out, why in (
        (without, "without a patient"),
        (beyond, f"beyond the first {MAX_VISITS} of their patient"),
    ):
        if left_out.any():
            counts = f"{int(left_out.sum()):,} of {len(patients):,} rows"
            where = location_of(int(left_out.argmax()))
            of_site = f"{site}: " if site else ""
            log.warning("%s%s %s are left out, first %s", of_site, counts, why, where)
    return np.flatnonzero(~(without | beyond))
