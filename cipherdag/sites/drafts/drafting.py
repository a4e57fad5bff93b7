"""A draft of a schema says which columns follow from others, and what is odd about rows.

Leaks:
    Nothing leaves the site but the draft, if a person sends it: it names columns and categories,
    and no other value and no number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cipherdag.errors import DataError
from cipherdag.sites.drafts.relations.search import related_columns
from cipherdag.sites.drafts.row_suspicions import row_suspicions
from cipherdag.sites.table.reading import TableSource
from cipherdag.sites.table.site_table import load_table

if TYPE_CHECKING:
    from cipherdag.sites.table.schema import Schema


def looked_at(schema: Schema, sources: Sequence[TableSource]) -> Schema:
    """A drafted schema with what the rows of its tables say of relations and of themselves.

    Relations are declared that hold in every row of all tables, and a comment says behind "LOOK:"
    what is odd about the rows of some. Where the tables cannot be read by the draft before a person
    has looked at it, it says so instead.
    """
    try:
        tables = [load_table(source, schema) for source in sources]
    except DataError as error:
        said = (
            "LOOK: rows, and columns that follow from others, were not looked at, since the data "
            f"cannot be read by this draft yet ({error.summary}). `cipherdag site check` does."
        )
        return replace(schema, comment=said)
    odd = dict.fromkeys(f"LOOK: {each}" for table in tables for each in row_suspicions(table))
    return replace(schema, relations=related_columns(*tables), comment=" ".join(odd))
