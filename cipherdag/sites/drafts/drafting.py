"""A draft of a schema: its columns, what they say of each other, and what is odd about the rows.

Leaks:
    Nothing leaves the site but the draft, if a person sends it: it names columns and categories,
    and no other value and no number of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cipherdag.errors import DataError
from cipherdag.sites.drafts.inference import infer_columns
from cipherdag.sites.drafts.relations.search import related_columns
from cipherdag.sites.drafts.row_suspicions import row_suspicions
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.sites.table.reading import TableSource


def drafted_schema(sources: Sequence[TableSource]) -> Schema:
    """A first schema of one or several tables.

    The columns are those of `infer_columns`. Relations are declared that hold in every row of all
    tables, and a comment says behind "LOOK:" what is odd about the rows of some. Where the tables
    cannot be read by the draft before a person has looked at it, it says so instead.

    Raises:
        DataError: See `infer_columns`.
        SchemaError: If there is no table, or no column carries information.
    """
    schema = Schema(infer_columns(sources).runnable)
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
