"""Columns that hold one value only in some table: a run over such tables would stop at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import is_plain_number

_MOST_VALUES = 16
"""One value, and words for missing ones: whatever holds more varies."""


@dataclass(frozen=True, slots=True, repr=False)
class Held:
    """What one table holds in a column.

    Attributes:
        number: Which of the tables it is, from 1.
        values: Its values where they are few, otherwise None.
    """

    number: int
    values: frozenset[str] | None

    def varies(self, column: Column) -> bool:
        """Whether it has two values that the column does not take as missing."""
        if self.values is None:
            return True
        left = self.values - {"", *column.missing}
        if column.kind == "continuous" and all(map(is_plain_number, left)):
            return len({float(own) for own in left}) > 1
        return len(left) > 1


def held_by(tally: ColumnTally, number: int) -> Held:
    """What one table holds in a column."""
    return Held(number, tally.few_values(_MOST_VALUES))


def without_constant(column: Column, held: Sequence[Held]) -> Column:
    """The column of a draft, so that a run over these very tables does not stop at it.

    Args:
        column: As it is drafted from all tables.
        held: What each table has in it.

    Returns:
        It is ignored where it varies in none of several tables, as the name of a site does, and
        ``allow_constant`` where it varies in some; its comment says so. Otherwise it is returned.
    """
    idle = [own for own in held if not own.varies(column)]
    if column.kind in ("ignore", "intervention") or not idle:
        return column
    if len(idle) == len(held):
        why = "Ignored: it holds one value only, or none, in each file."
        return replace(column, kind="ignore", categories=(), ordered=False, comment=why)
    where = ", ".join(str(own.number) for own in idle)
    said = (
        f"In file {where} of those drafted from it holds one value only, or none, which "
        "allow_constant permits. Was it measured there, and in the same way?"
    )
    return replace(column, allow_constant=True, comment=f"{column.comment} LOOK: {said}".strip())
