"""Background knowledge: edges that are required or forbidden before anything is tested.

Source: Meek, "Causal inference and causal explanation with background knowledge", UAI 1995.

Leaks:
    Nothing by itself; which pairs are tested and which are not says that there is some.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.errors import ParameterError
from cipherdag.graphs.extension import topological_order

Arrow = tuple[str, str]

GIVEN = {
    "edge": "Given: the background knowledge has this edge; the data did not decide on it.",
    "direction": "The direction is given by the background knowledge, not constraints.",
}
"""What is said of an edge of which there is background knowledge."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Background knowledge by position; p variables.

    Attributes:
        forbidden: Shape (p, p): True where i is not a cause of j.
        required: Shape (p, p): True where i is a direct cause of j; then j -> i is forbidden.
    """

    forbidden: BoolMatrix
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
        """Those of some edges whose direction nothing says, shape (p, p)."""
        return edges & ~(self.forbidden | self.forbidden.T)

    def directed(self, skeleton: BoolMatrix) -> BoolMatrix:
        """The skeleton with the directions that knowledge gives, shape (p, p)."""
        return skeleton & ~self.forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Background knowledge by name; of real sites, whose names stay there, by identifier.

    Attributes:
        forbidden: Pairs (a, b): a is not a direct cause of b.
        required: Pairs (a, b): a is a direct cause of b.
        tiers: Groups of variables in time: none causes a variable of an earlier group. Variables
            in no group may stand anywhere.

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
            raise ParameterError("an edge of the knowledge does not have two ends")

    @classmethod
    def loads(cls, text: str) -> Knowledge:
        """Read ``forbidden``, ``required`` and ``tiers``, lists of lists of names, from TOML.

        Raises:
            ParameterError: It is not TOML, has another key or other values.
        """
        try:
            table = tomllib.loads(text)
        except ValueError as error:
            raise ParameterError(f"the knowledge is not TOML: {error}") from error
        if unknown := set(table) - {"forbidden", "required", "tiers"}:
            raise ParameterError(f"the knowledge has an unknown key '{min(unknown)}'")
        return cls(**table)

    def dumps(self) -> str:
        """The knowledge as TOML, which `loads` reads back as equal knowledge."""
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in asdict(self).items())

    def over(self, names: Sequence[str]) -> Constraints:
        """The knowledge by position.

        Args:
            names: The variables in the order of their positions.

        Raises:
            ParameterError: A name is unknown, stands in two tiers or in an arrow to itself, an edge
                is required and forbidden, or required edges form a cycle.
        """
        index = {name: position for position, name in enumerate(names)}
        named = chain(*self.forbidden, *self.required, *self.tiers)
        if unknown := sorted(set(named) - set(index)):
            raise ParameterError(f"the knowledge names '{unknown[0]}', which is no variable")
        constraints = Constraints.none(len(names))
        for arrows, matrix in (
            (self.forbidden, constraints.forbidden),
            (self.required, constraints.required),
        ):
            for arrow in arrows:
                if arrow[0] == arrow[1]:
                    raise ParameterError(f"{arrow} is not an edge between two variables")
                matrix[index[arrow[0]], index[arrow[1]]] = True
        tier = self._tiers(index)
        constraints.forbidden[tier[:, None] > tier[None]] = True  # NaN is later than nothing
        if (constraints.required & constraints.forbidden).any():
            i, j = np.argwhere(constraints.required & constraints.forbidden)[0]
            raise ParameterError(f"'{names[i]}' --> '{names[j]}' is required and forbidden")
        if topological_order(constraints.required) is None:
            raise ParameterError("the required edges form a cycle")
        constraints.forbidden[constraints.required.T] = True
        return constraints

    def _tiers(self, index: dict[str, int]) -> FloatVector:
        tier = np.full(len(index), np.nan)
        for number, group in enumerate(self.tiers):
            for name in group:
                if not np.isnan(tier[index[name]]):
                    raise ParameterError(f"'{name}' stands twice in the tiers")
                tier[index[name]] = number
        return tier


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


def given_of(constraints: Constraints | None, a: int, b: int) -> str:
    """What knowledge gives of an edge between a and b: the "edge", its "direction", or nothing."""
    if constraints is None:
        return ""
    if constraints.required[[a, b], [b, a]].any():
        return "edge"
    return "direction" if constraints.forbidden[[a, b], [b, a]].any() else ""
