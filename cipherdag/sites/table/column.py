"""One column of a schema."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from cipherdag.errors import SchemaError
from cipherdag.sites.table.names import (
    first_repeat,
    hidden_character,
    normalise_name,
    normalise_value,
    visible,
)

ColumnKind = Literal["continuous", "discrete", "binned", "intervention", "ignore"]

NO_VARIABLE = ("intervention", "ignore")
_MARKS = ("ordered", "allow_constant", "label")
_KIND_NAMES = ", ".join(get_args(ColumnKind))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the study; names and values are normalised on construction.

    Attributes:
        name: Name in the file.
        kind: "continuous", "discrete", "binned", "intervention" for the one that names the
            intervened variables of each row, or "ignore" for one that takes no part.
        categories: Values of a discrete column; a value's code is its position.
        edges: Cuts e1 < e2 < ... of a binned column: bins (-inf, e1], (e1, e2], ..., (ek, inf).
        ordered: Whether categories or bins are in an order, the one in which they are listed.
        missing: Texts that stand for a missing value, besides the empty field.
        allow_constant: Whether one site may hold a single value or none.
        label: Whether the column is a label of a multi-label study.
        comment: Written above the column by ``Schema.dumps``; not compared.

    Raises:
        SchemaError: If a field is out of its range or does not belong to the kind.
    """

    name: str
    kind: ColumnKind
    categories: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    allow_constant: bool = False
    label: bool = False
    ordered: bool = False
    comment: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        markers = (normalise_value(marker) for marker in self.missing)
        normal: dict[str, object] = {
            "name": normalise_name(self.name),
            "categories": tuple(normalise_value(value) for value in self.categories),
            "edges": tuple(float(edge) + 0.0 for edge in self.edges),  # no negative zero
            "missing": tuple(dict.fromkeys(marker for marker in markers if marker)),
        }
        for key, value in normal.items():
            object.__setattr__(self, key, value)
        fault = self._text_fault() or self._kind_fault()
        if fault:
            raise SchemaError(fault, column=visible(self.name))

    @property
    def cardinality(self) -> int:
        """Number of categories or bins; 0 for a continuous or ignored column."""
        if self.kind == "discrete":
            return len(self.categories)
        return len(self.edges) + 1 if self.kind == "binned" else 0

    def category_name(self, code: int) -> str:
        """What a code stands for: a category, or a bin between its edges."""
        if self.kind == "discrete":
            return self.categories[code]
        low, high = (-math.inf, *self.edges)[code], (*self.edges, math.inf)[code]
        return f"({low:g}, {high:g}]"

    def canonical(self) -> bytes:
        """What sites must agree on for this column, as deterministic ASCII without line breaks.

        Holds name, kind, categories, edges and label mark, and "ordered" where they are; how a site
        writes a missing value and whether it may be constant there is its own affair.
        """
        content = [self.name, self.kind, self.categories, self.edges, self.label]
        content += ["ordered"] * self.ordered
        return json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")

    def _text_fault(self) -> str:
        if not self.name:
            return "a column has an empty name"
        for text in (self.name, *self.categories, *self.missing, self.comment):
            hidden = hidden_character(text)
            if hidden is not None:
                return f"a text has the invisible character {hidden}"
        if "" in self.categories:
            return "a category is empty; the empty field always means a missing value"
        repeat = first_repeat(self.categories)
        if repeat is not None:
            return f"category '{self.categories[repeat[0]]}' is listed twice"
        both = set(self.categories) & set(self.missing)
        return f"'{min(both)}' is both a category and a missing value" if both else ""

    def _kind_fault(self) -> str:
        kind, edges = self.kind, self.edges
        fewest = 1 if self.allow_constant else 2
        rules = (
            (kind not in get_args(ColumnKind), f"kind '{kind}' is none of {_KIND_NAMES}"),
            (self.categories and kind not in {"discrete", "ignore"}, f"{kind} has no categories"),
            (self.label and kind == "intervention", "a column of interventions is no label"),
            (edges and kind not in {"binned", "ignore"}, f"{kind} has no edges"),
            (
                kind == "discrete" and len(self.categories) < fewest,
                f"a discrete column needs at least {fewest} categories",
            ),
            (kind == "binned" and not edges, "a binned column needs at least one edge"),
            (
                self.ordered and kind in {"continuous", "intervention"},
                f"{kind} has no categories in an order",
            ),
            (
                self.ordered and kind == "discrete" and len(self.categories) < 2,  # noqa: PLR2004
                "an order needs at least 2 categories, listed from one end to the other",
            ),
            (not all(map(math.isfinite, edges)), "an edge is not a finite number"),
            (
                any(low >= high for low, high in itertools.pairwise(edges)),
                "the edges do not increase",
            ),
        )
        return next((fault for broken, fault in rules if broken), "")
