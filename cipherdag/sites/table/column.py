"""One column of a schema."""

import itertools
import json
import math
import unicodedata
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from cipherdag.errors import SchemaError
from cipherdag.sites.table.file_description import DateRule
from cipherdag.sites.table.names import (
    first_repeat,
    hidden_character,
    normalise_name,
    normalise_value,
    parse_number,
    visible,
)

ColumnKind = Literal["continuous", "discrete", "binned", "intervention", "patient", "ignore"]

Listed: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Texts by the text that they belong to, such as spellings by their category."""

MARKS = ("intervention", "patient")
"""Kinds that say something of rows; a table has one column of each at most."""
NO_VARIABLE = (*MARKS, "ignore")
FLAGS = ("ordered", "allow_constant", "label")
_NUMBERS = ("continuous", "binned", "ignore")
_KIND_NAMES = ", ".join(get_args(ColumnKind))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the study; names and values are normalised on construction.

    ``schema_head.toml`` says what its fields hold. Raises SchemaError if one is out of its range or
    does not belong to the kind.
    """

    name: str
    kind: ColumnKind
    categories: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    allow_constant: bool = False
    label: bool = False
    ordered: bool = False
    synonyms: Listed = ()
    unit: str = ""
    plausible: tuple[float, ...] = ()
    date: str = ""
    concepts: Listed = ()
    unmeasured_at: tuple[str, ...] = ()
    # written above the column by `Schema.dumps`
    comment: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        markers = (normalise_value(marker) for marker in self.missing)
        normal: dict[str, object] = {
            "name": normalise_name(self.name),
            "categories": tuple(normalise_value(value) for value in self.categories),
            "edges": tuple(float(edge) + 0.0 for edge in self.edges),  # no negative zero
            "missing": tuple(dict.fromkeys(marker for marker in markers if marker)),
            "synonyms": tuple(
                (normalise_value(each), tuple(dict.fromkeys(map(normalise_value, texts))))
                for each, texts in self.synonyms
            ),
            # one character of two code points: the micro sign and the letter mu
            "unit": unicodedata.normalize("NFKC", self.unit).strip(),
            "plausible": tuple(float(limit) + 0.0 for limit in self.plausible),
            "unmeasured_at": tuple(sorted(set(self.unmeasured_at))),
        }
        for key, value in normal.items():
            object.__setattr__(self, key, value)
        fault = self._text_fault() or self._kind_fault() or self._number_fault()
        if fault:
            raise SchemaError(fault, column=visible(self.name))

    @property
    def cardinality(self) -> int:
        """Number of categories or bins; 0 for a continuous or ignored column."""
        if self.kind == "discrete":
            return len(self.categories)
        return len(self.edges) + 1 if self.kind == "binned" else 0

    @property
    def scores(self) -> tuple[float, ...]:
        """Its categories as numbers, by code; empty where one is no number, or for bins."""
        numbers = [parse_number(category) for category in self.categories]
        values = tuple(number for number in numbers if number is not None)
        return values if len(values) == len(numbers) else ()

    def category_name(self, code: int) -> str:
        """The meaning of a code: a category, or a bin between its edges."""
        if self.kind == "discrete":
            return self.categories[code]
        low, high = (-math.inf, *self.edges)[code], (*self.edges, math.inf)[code]
        return f"({low:g}, {high:g}]"

    @property
    def date_rule(self) -> DateRule | None:
        """The rule by which its dates count; None for a column without dates."""
        return DateRule.parse(self.date) if self.date else None

    def canonical(self) -> bytes:
        """The properties that sites must agree on, as deterministic ASCII without line breaks.

        Holds name, kind, categories, edges and label mark, and if given "ordered", unit, date rule
        and the sites that lack it: these say what a number means, and whose it is. Each site
        decides how it writes a category or a missing value, whether the column may be constant
        there, and what it takes for a mistake. Concept codes are not held, since several codes may
        have one meaning, and they change with their vocabularies: `schema diff` compares them, and
        a site that adds one does not end a study.
        """
        content = [self.name, self.kind, self.categories, self.edges, self.label]
        content += ["ordered"] * self.ordered
        optional = ("unit", "date", "unmeasured_at")
        content += [[key, value] for key in optional if (value := getattr(self, key))]
        return json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")

    def _text_fault(self) -> str:
        if not self.name:
            return "a column has an empty name"
        pairs = (*self.synonyms, *self.concepts)
        listed = itertools.chain.from_iterable((each, *texts) for each, texts in pairs)
        texts = (self.name, self.unit, *self.categories, *self.missing, *listed, self.comment)
        texts += self.unmeasured_at
        for text in texts:
            hidden = hidden_character(text)
            if hidden is not None:
                return f"a text has the invisible character {hidden}"
        if "" in self.categories:
            return "a category is empty; the empty field always means a missing value"
        repeat = first_repeat(self.categories)
        if repeat is not None:
            return f"category '{self.categories[repeat[0]]}' is listed twice"
        both = set(self.categories) & set(self.missing)
        if both:
            return f"'{min(both)}' is both a category and a missing value"
        return self._synonym_fault()

    def _synonym_fault(self) -> str:
        for pairs in (self.synonyms, self.concepts):
            keys = [each for each, _ in pairs]
            twice = first_repeat(keys)
            if twice is not None:
                return f"'{keys[twice[0]]}' is given twice"
        categories = {*self.categories}
        unknown = [each for each, _ in self.synonyms if each not in categories]
        if unknown and self.kind != "ignore":
            return f"synonyms are given for '{unknown[0]}', which is no category"
        spellings = [text for _, texts in self.synonyms for text in texts]
        other = {"", *categories, *self.missing}
        taken = [text for text in spellings if text in other]
        if taken:
            return f"the synonym '{taken[0]}' is empty, a category or a missing value itself"
        repeat = first_repeat(spellings)
        return f"the synonym '{spellings[repeat[0]]}' is given twice" if repeat else ""

    def _number_fault(self) -> str:
        low_high, counted = self.plausible, self.kind in _NUMBERS
        rules = (
            (self.unit and not counted, f"{self.kind} has no unit"),
            (low_high and not counted, f"{self.kind} has no plausible range"),
            (self.date and not counted, f"{self.kind} has no dates"),
            (
                low_high
                and not (len(low_high) == 2 and -math.inf < low_high[0] < low_high[1] < math.inf),  # noqa: PLR2004
                "plausible is [least, greatest], two finite numbers in this order",
            ),
            (
                self.date and self.date_rule is None,
                f"'{self.date}' is no rule such as 'days since 2000-01-01' (or weeks, or years)",
            ),
            (self.date and self.unit, "the unit of a date stands in its rule"),
        )
        return next((fault for broken, fault in rules if broken), "")

    def _kind_fault(self) -> str:
        kind, edges = self.kind, self.edges
        fewest = 1 if self.allow_constant else 2
        rules = (
            (kind not in get_args(ColumnKind), f"kind '{kind}' is none of {_KIND_NAMES}"),
            (self.categories and kind not in {"discrete", "ignore"}, f"{kind} has no categories"),
            (self.label and kind in MARKS, f"a column of {kind}s is no label"),
            (edges and kind not in {"binned", "ignore"}, f"{kind} has no edges"),
            (self.unmeasured_at and kind in MARKS, f"{kind}s are not measured"),
            (
                kind == "discrete" and len(self.categories) < fewest,
                f"a discrete column needs at least {fewest} categories",
            ),
            (kind == "binned" and not edges, "a binned column needs at least one edge"),
            (
                self.ordered and kind in {"continuous", *MARKS},
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
