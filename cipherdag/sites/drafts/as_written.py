"""How a file is written, for a draft: what an error says to declare is declared, and it is said.

A site's own file is never read so: there a person declares what a draft proposes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.drafts.guessing import MISSING_WORDS
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.column_reader import is_other_number
from cipherdag.sites.table.file_description import AS_USUAL, PLAIN, DescribedFile, Notation
from cipherdag.sites.table.names import is_plain_number, normalise_name
from cipherdag.sites.table.reading import TableSource

Read = TypeVar("Read")
_MOST_CELLS = 20_000
"""Different cells of a column that are looked at for their notation."""
_OTHER_MARKS = frozenset(",' \u00a0\u202f")
_NOTATIONS = (
    *(Notation(decimal=",", thousands=mark) for mark in ("", ".", " ", "'")),
    *(Notation(decimal=".", thousands=mark) for mark in (",", " ", "'")),
)
log = logging.getLogger("cipherdag.data")


def as_written(
    source: TableSource,
    read: Callable[[TableSource], Read],
    tallies: Callable[[Read], Iterable[ColumnTally]],
) -> tuple[TableSource, Read]:
    """The table with the description by which it can be read, and what is read of it.

    A file without a description gets what each error says to declare, until none is left, and the
    notation of its numbers where one alone fits. A log line says what was taken.

    Args:
        source: The table.
        read: Reads it.
        tallies: The values of its columns, from what was read.

    Raises:
        UnreadableDataError: It cannot be read with what its errors say to declare.
    """
    if not isinstance(source, str | os.PathLike) or Path(source).suffix == ".toml":
        return source, read(source)
    path, description = Path(source), AS_USUAL
    while True:
        file = DescribedFile(path, description)
        try:
            made = read(file)
            more: dict[str, Any] = notation(tallies(made)) if description.notation == PLAIN else {}
        except UnreadableDataError as error:
            more = dict(error.declaration)
            if not more or any(getattr(description, k) != getattr(AS_USUAL, k) for k in more):
                raise
        if not more:
            break
        description = msgspec.structs.replace(description, **more)
    if description == AS_USUAL:
        return source, made
    said = ", ".join(description.lines())
    log.warning("%s is read with %s; see that this is so", path.name, said)
    return file, made


def notation(tallies: Iterable[ColumnTally]) -> dict[str, str]:
    """The keys of the notation in which a file's numbers are written, empty where it is the usual.

    It is declared only where every column of numbers has it, and where every other notation that
    fits them gives the same numbers: "1,234" may be a thousand or a decimal.
    """
    columns = []
    odd = False
    for tally in tallies:
        texts = [normalise_name(text) for text in islice(tally.texts, _MOST_CELLS)]
        cells = [text for text in texts if text and text.lower() not in MISSING_WORDS]
        if cells and all(is_plain_number(text) or is_other_number(text) for text in cells):
            columns.append(cells)
            odd = odd or any(_OTHER_MARKS.intersection(text) for text in cells)
    if not odd:
        return {}
    numbers = {
        each: [[each.number(cell) for cell in cells] for cells in columns] for each in _NOTATIONS
    }
    readable = [k for k in range(len(columns)) if any(None not in n[k] for n in numbers.values())]
    fitting = {
        each: tuple(number for k in readable for number in n[k])
        for each, n in numbers.items()
        if readable and not any(None in n[k] for k in readable)
    }
    if len({*fitting.values()}) != 1:
        return {}
    one = next(iter(fitting))
    return {"decimal": one.decimal, "thousands": one.thousands}
