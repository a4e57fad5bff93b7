"""Background knowledge: edges that are required or forbidden before anything is tested.

Source: Meek, "Causal inference and causal explanation with background knowledge", UAI 1995.

Leaks:
    Nothing by itself; which pairs are never tested shows that there is knowledge.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.errors import ParameterError
from cipherdag.graphs.extension import topological_order

Arrow = tuple[str, str]
OTHERS = "*"

CONTRADICTORY = 'Correct the knowledge; in a file each edge is ["cause", "effect"].'
GIVEN = {
    "edge": "Given: the background knowledge has this edge; the data did not decide on it.",
    "direction": "The direction is given by the background knowledge, not constraints.",
}
NUMBERED_AT_A_SITE = (
    "A person at a site writes the knowledge by names: `cipherdag site knowledge --forbid A B "
    "--out knowledge.toml`; give its file as --knowledge."
)


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Background knowledge by position; p variables."""

    forbidden: BoolMatrix  # shape (p, p): True where i is not a direct cause of j
    # shape (p, p): True where i is a direct cause of j; then j -> i is forbidden
    required: BoolMatrix

    @classmethod
    def none(cls, n_variables: int) -> Constraints:
        """No background knowledge."""
        empty = np.zeros((n_variables, n_variables), dtype=bool)
        return cls(empty, empty.copy())

    @property
    def excluded(self) -> BoolMatrix:
        """Pairs that no edge may join, shape (p, p)."""
        return self.forbidden & self.forbidden.T

    @property
    def joined(self) -> BoolMatrix:
        """Pairs that an edge must join, shape (p, p)."""
        return self.required | self.required.T

    def open(self, edges: BoolMatrix) -> BoolMatrix:
        """The edges whose direction knowledge leaves open, shape (p, p)."""
        return edges & ~(self.forbidden | self.forbidden.T)

    def directed(self, skeleton: BoolMatrix) -> BoolMatrix:
        """The skeleton with the directions that knowledge gives, shape (p, p)."""
        return skeleton & ~self.forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Background knowledge by name, or by identifier at coordinators, which never see names.

    Attributes:
        forbidden: Pairs (a, b): a is not a direct cause of b.
        required: Pairs (a, b): a is a direct cause of b.
        tiers: Groups of variables in time: none causes a variable of an earlier group. Variables
            in no group may stand anywhere; "*" in a group stands for all of them.

    Lists do as well as tuples.

    Raises:
        ParameterError: A field is no list of lists of names, or an edge does not have two ends.
    """

    forbidden: tuple[Arrow, ...] = ()
    required: tuple[Arrow, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in ("forbidden", "required", "tiers"):
            # ("a", "b") in place of (("a", "b"),) is two texts, whose letters would be names
            object.__setattr__(self, name, _groups(name, getattr(self, name)))
        if any(len(arrow) != 2 for arrow in (*self.forbidden, *self.required)):  # noqa: PLR2004
            raise ParameterError(
                "an edge of the knowledge does not have two ends", remedy=CONTRADICTORY
            )

    @classmethod
    def loads(cls, text: str) -> Knowledge:
        """Read ``forbidden``, ``required`` and ``tiers``, lists of lists of names, from TOML.

        Raises:
            ParameterError: It is not TOML, has another key or other values.
        """
        try:
            table = tomllib.loads(text)
        except ValueError as error:
            raise ParameterError(
                f"the knowledge is not TOML: {error}", remedy=CONTRADICTORY
            ) from error
        if unknown := set(table) - {"forbidden", "required", "tiers"}:
            raise ParameterError(
                f"the knowledge has an unknown key '{min(unknown)}'",
                remedy="Its keys are forbidden, required and tiers.",
            )
        return cls(**table)

    def dumps(self) -> str:
        """The knowledge as TOML, which `loads` reads back as equal knowledge."""
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in asdict(self).items())

    def with_edges(
        self, *, forbidden: Iterable[Arrow] = (), required: Iterable[Arrow] = ()
    ) -> Knowledge:
        """This knowledge and more edges, each once."""
        return Knowledge(
            forbidden=tuple(dict.fromkeys((*self.forbidden, *forbidden))),
            required=tuple(dict.fromkeys((*self.required, *required))),
            tiers=self.tiers,
        )

    def numbered(self, names: Sequence[str]) -> Knowledge:
        """The knowledge by identifier, "1" for the first of the names, as coordinators need it."""
        self.over(names)
        number = {name: str(position) for position, name in enumerate(names, start=1)}
        return Knowledge(
            forbidden=tuple((number[a], number[b]) for a, b in self.forbidden),
            required=tuple((number[a], number[b]) for a, b in self.required),
            tiers=tuple(tuple(number.get(name, name) for name in tier) for tier in self.tiers),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Every name in it, in alphabetical order."""
        return tuple(sorted({*chain(*self.forbidden, *self.required, *self.tiers)} - {OTHERS}))

    def over(self, names: Sequence[str]) -> Constraints:
        """The knowledge by position.

        Raises:
            ParameterError: A name is unknown, stands in two tiers or in an arrow to itself, an edge
                is required and forbidden, or required edges form a cycle.
        """
        index = {name: position for position, name in enumerate(names)}
        if unknown := next((name for name in self.names if name not in index), None):
            raise ParameterError(
                f"the knowledge names '{unknown}', which is no variable",
                remedy=_near(unknown, names),
            )
        constraints = Constraints.none(len(names))
        for arrows, matrix in (
            (self.forbidden, constraints.forbidden),
            (self.required, constraints.required),
        ):
            for arrow in arrows:
                if arrow[0] == arrow[1]:
                    raise ParameterError(
                        f"{arrow} is not an edge between two variables", remedy=CONTRADICTORY
                    )
                matrix[index[arrow[0]], index[arrow[1]]] = True
        tier = self._tiers(index)
        constraints.forbidden[tier[:, None] > tier[None]] = True  # NaN is later than nothing
        if (constraints.required & constraints.forbidden).any():
            i, j = np.argwhere(constraints.required & constraints.forbidden)[0]
            raise ParameterError(
                f"'{names[i]}' --> '{names[j]}' is required and forbidden", remedy=CONTRADICTORY
            )
        if topological_order(constraints.required) is None:
            raise ParameterError("the required edges form a cycle", remedy=CONTRADICTORY)
        constraints.forbidden[constraints.required.T] = True
        return constraints

    def _tiers(self, index: dict[str, int]) -> FloatVector:
        tier = np.full(len(index), np.nan)
        for number, group in enumerate(self.tiers):
            for name in filter(OTHERS.__ne__, group):
                if not np.isnan(tier[index[name]]):
                    raise ParameterError(
                        f"'{name}' stands twice in the tiers", remedy=CONTRADICTORY
                    )
                tier[index[name]] = number
        last = [number for number, group in enumerate(self.tiers) if OTHERS in group]
        tier[np.isnan(tier)] = last[0] if last else np.nan
        return tier


def read_tiers(text: str) -> tuple[tuple[str, ...], ...]:
    """Tiers from a CSV with the columns ``variable`` and ``tier``, a whole number, earliest first.

    Raises:
        ParameterError: It has other columns, a tier that is no whole number, or no line.
    """
    rows = list(csv.reader(text.removeprefix("\ufeff").splitlines()))
    if not rows or [cell.strip().lower() for cell in rows[0]] != ["variable", "tier"]:
        raise ParameterError(
            "the tiers have no columns variable and tier",
            remedy="Write `variable,tier` into the first line, and below it lines like Smoking,1.",
        )
    groups: dict[int, list[str]] = {}
    for line, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        variable, tier = (cell.strip() for cell in (*row, "")[:2])
        if len(row) != len(rows[0]) or not tier.removeprefix("-").isdecimal():
            raise ParameterError(
                f"line {line} of the tiers is not a variable and a whole number: {','.join(row)}",
                remedy="Write lines like Smoking,1: nothing causes a variable of a lower number.",
            )
        groups.setdefault(int(tier), []).append(variable)
    return tuple(tuple(groups[tier]) for tier in sorted(groups))


def _groups(key: str, value: Any) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(group, list | tuple) and all(isinstance(name, str) for name in group)
        for group in value
    ):
        raise ParameterError(
            f"'{key}' of the knowledge is not a list of lists of names: {value!r:.80}",
            remedy='One edge or tier is a list within the list, as in [["a", "b"]].',
        )
    return tuple(tuple(map(str, group)) for group in value)


def _near(name: str, names: Sequence[str]) -> str:
    """What to write in place of a name that no variable has."""
    if tuple(names) == tuple(str(number) for number in range(1, len(names) + 1)):
        return NUMBERED_AT_A_SITE
    folded = {each.casefold(): each for each in names}
    close = get_close_matches(name.casefold(), folded, n=1)
    if close:
        return f"Did you mean '{folded[close[0]]}'?"
    return f"The variables are {', '.join(names)}."


def given_of(constraints: Constraints | None, a: int, b: int) -> str:
    """What knowledge gives of an edge between a and b: the "edge", its "direction", or nothing."""
    if constraints is None:
        return ""
    if constraints.required[[a, b], [b, a]].any():
        return "edge"
    return "direction" if constraints.forbidden[[a, b], [b, a]].any() else ""
