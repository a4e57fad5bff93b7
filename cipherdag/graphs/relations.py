"""Columns that are functions of others: how a schema declares them, and which tests that rules out.

Where S determines x, nothing is left of x given S, so that any test of x and y given S says
independent, or fails, whatever causes what: the data are not faithful to any graph there (Spirtes,
Glymour and Scheines, 2000, section 3.8). So such a test is never done, whatever the evidence,
and its edge says so.

Leaks:
    Nothing of rows: the sites' schema declares the relations, and all sites have the same one. Who
    knows the positions of the variables only learns which of these determine one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar, get_args

import msgspec
import numpy as np

from cipherdag.arrays import BoolMatrix, BoolVector, IndexArray
from cipherdag.pages.numerals import counted, first_of

Form = Literal["coded", "one-hot", "sum", "product", "function"]
"""``coded``: the first column and all others together are one variable, as a copy, a code and its
name, a category and its dummies. ``one-hot``: in every row one of them is set. ``sum`` and
``product``: a weighted sum of them, or of their logarithms, is constant. ``function``: the first
follows from the others."""
FORMS: tuple[Form, ...] = get_args(Form)
_COMPUTED = (
    'Leave out the column that is computed from the others (kind = "ignore"), unless your '
    "question needs it."
)
LEFT_OUT: Mapping[Form, str] = {
    "coded": 'Of columns that are one variable, leave out all but one (kind = "ignore").',
    "one-hot": 'Better give the category as one column, and leave these out (kind = "ignore").',
    "sum": _COMPUTED,
    "product": _COMPUTED,
    "function": _COMPUTED,
}
"""What to do about columns of each form, in a sentence. A computed column can go: what it causes
follows from the columns that it is computed from, so no common cause is lost."""
Name = TypeVar("Name")
FEWEST_ONE_HOT = 3
"""Fewest columns of a one-hot set: of two, one is a copy of the other with values swapped."""


class Relation(msgspec.Struct, Generic[Name], frozen=True, forbid_unknown_fields=True):
    """How columns, at least two and all different, determine one another, by name or position."""

    form: Form
    columns: tuple[Name, ...]

    @property
    def rules(self) -> tuple[tuple[Name, tuple[Name, ...]], ...]:
        """Every column that follows from others, with those others."""
        first, rest = self.columns[0], self.columns[1:]
        if self.form == "function":
            return ((first, rest),)
        if self.form == "coded":
            return ((first, rest), *((other, (first,)) for other in rest))
        columns = self.columns
        return tuple((v, (*columns[:k], *columns[k + 1 :])) for k, v in enumerate(columns))

    @property
    def one_variable(self) -> bool:
        """Whether the columns write one variable several times."""
        return self.form in ("coded", "one-hot")

    def over(self: Relation[str], positions: Mapping[str, int]) -> Relation[int]:
        """This relation of names, by position."""
        return Relation(self.form, tuple(positions[name] for name in self.columns))

    def named(self: Relation[int], names: Sequence[str]) -> Relation[str]:
        """This relation of positions, by name."""
        return Relation(self.form, tuple(names[position] for position in self.columns))

    def in_words(self) -> str:
        """The relation in words, of names."""
        first, *rest = (f"'{entry}'" for entry in self.columns)
        others = _listed(rest)
        match self.form:
            case "coded" if len(rest) == 1:
                return f"{first} and {others} are one variable, written twice"
            case "coded":
                return f"{first} is what {others} are together"
            case "one-hot":
                return f"of {_listed([first, *rest])} one is set in every row"
            case "function":
                return f"{first} follows from {others}"
        kind = "weighted sum" if self.form == "sum" else "product of powers"
        return f"a {kind} of {_listed([first, *rest])} is constant, so that each follows from all"


@dataclass(frozen=True)
class Determined:
    """The relations of a study's variables by position, as the schema declares them."""

    relations: tuple[Relation[int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.relations)

    @cached_property
    def _rules(self) -> list[tuple[int, IndexArray]]:
        return [
            (target, np.array(by, dtype=np.int64))
            for relation in self.relations
            for target, by in relation.rules
        ]

    @property
    def disclosed(self) -> str:
        """What the coordinator learns of the relations, in a sentence."""
        several = sorted({v + 1 for relation in self.relations for v in relation.columns})
        return (
            "The coordinator learns which variables the schema says to determine one another: "
            f"{counted(len(self.relations), 'relation')} of numbers {', '.join(map(str, several))}."
        )

    def undone(self, rows: IndexArray) -> BoolVector:
        """Whether S determines x or y, shape (B,), by rows x, y, s1, ..., sl, shape (B, 2 + l)."""
        undone = np.zeros(len(rows), dtype=bool)
        if not self.relations or rows.shape[1] <= len(("x", "y")):
            return undone
        targets = np.array(sorted({target for target, _ in self._rules}))
        some = np.flatnonzero(np.isin(rows[:, :2], targets).any(axis=1))
        width = 1 + int(
            max(rows.max(initial=0), *(v for entry in self.relations for v in entry.columns))
        )
        for part in np.array_split(some, max(1, len(some) * width // _MOST_CELLS)):
            determined = self._closure(rows[part, 2:], width)
            undone[part] = np.take_along_axis(determined, rows[part, :2], axis=1).any(axis=1)
        return undone

    def follows(self, target: int, given: Sequence[int]) -> bool:
        """Whether a set determines a variable that is not in it."""
        if target in given or not given:
            return False
        width = 1 + max(target, *given, *(v for each in self.relations for v in each.columns), 0)
        return bool(self._closure(np.array([given], dtype=np.int64), width)[0, target])

    def _closure(self, given: IndexArray, width: int) -> BoolMatrix:
        """What sets, (B, l), determine, themselves included, by variable, shape (B, width)."""
        determined = np.zeros((len(given), width), dtype=bool)
        np.put_along_axis(determined, given, values=True, axis=1)
        grown = True
        while grown:
            grown = False
            for target, by in self._rules:
                new = determined[:, by].all(axis=1) & ~determined[:, target]
                if new.any():
                    determined[new, target] = grown = True
        return determined

    def named(self, names: Sequence[str]) -> tuple[Relation[str], ...]:
        """The relations by name."""
        return tuple(relation.named(names) for relation in self.relations)

    def without_direction(self, edges: BoolMatrix, *, by_scores: bool = False) -> BoolMatrix:
        """Edges between columns that write one variable several times, shape (p, p) as given.

        Neither causes the other, so such an edge makes no collider: of two columns of a one-hot
        set one is 0 where the other is 1, whatever else they depend on. With ``by_scores`` all
        edges of such columns, since the score of a column given its copy is rounding error.
        """
        undirected = np.zeros_like(edges)
        for relation in self.relations:
            if relation.one_variable:
                columns = list(relation.columns)
                between = np.ix_(columns, columns)
                undirected[between] |= edges[between]
                if by_scores:
                    undirected[columns] |= edges[columns]
                    undirected[:, columns] |= edges[:, columns]
        return undirected


_MOST_CELLS = 1 << 24
MOST_SHOWN = 10
NOTHING = Determined()  # no variable is declared to follow from others


_ARROWS: tuple[tuple[set[Form], str], ...] = (
    ({"coded"}, "Edges between columns that record one variable several times have no direction."),
    (
        {"sum", "product"},
        "Arrows in a sum or product say which columns are independent, not which was computed.",
    ),
)


def relation_warnings(relations: Iterable[Relation[str]]) -> tuple[str, ...]:
    """What to know of a graph over columns that determine one another, in a sentence."""
    relations = tuple(relations)
    sentences = [entry.in_words() for entry in relations]
    if not sentences:
        return ()
    forms = {entry.form for entry in relations}
    remarks = [said for forms_of, said in _ARROWS if forms & forms_of]
    advice = dict.fromkeys(LEFT_OUT[form] for form in FORMS if form in forms)
    warning = (
        f"Columns determine one another: {first_of(sentences, MOST_SHOWN, '; ')}. Given the "
        "others, such a column does not vary: tests of it cannot be done, and its edges remain. "
        "An algorithm that scores graphs chooses such edges by chance."
    )
    return (" ".join([warning, *remarks, *advice]),)


def _listed(names: Sequence[str]) -> str:
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last
