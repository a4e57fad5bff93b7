"""The parameters of an algorithm: one field each, which Python, command line and pages read.

A field's type says what it may hold: a ``Literal`` its choices, ``X | None`` that there may be
none, ``tuple[X, ...]`` any number of values. Its metadata holds a range, or choices that a registry
lists; the class's docstring says what it is, and the first sentence there is its help on the
command line.
"""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union

import numpy as np

from cipherdag.errors import ParameterError
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.questions.weighted_evidence import MAX_ROWS_LIMIT

NO_LIMIT = -1
"""How a whole number that may be None is written where None cannot be."""
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8}.*)*)", re.MULTILINE)
_SENTENCE = re.compile(r"(?:[:;]|\.)(?=\s|$)")


Reveal = Literal["auto", "bits", "sums"]
"""What is opened of tests: one bit of each, or the sums over the sites that it is computed from."""
LEVELS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
"""Levels of tests of which bits leave: at any others, run after run would close in on a p-value."""
PENALTIES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Penalties of scores that are compared, likewise."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``, or the powers of two among them.

    An end that is ``above`` or ``below`` does not belong to it. Where bits leave a site with a
    folder, only the ``steps`` do, if there are any.
    """

    low: float
    high: float = math.inf
    above: bool = False
    below: bool = False
    powers: bool = False
    steps: tuple[float, ...] = ()

    def holds(self, number: float) -> bool:
        """True if a value is a number of this range; NaN is none."""
        low = self.low < number if self.above else self.low <= number
        inside = low and (number < self.high if self.below else number <= self.high)
        return inside and (not self.powers or math.frexp(number)[0] == 0.5)  # noqa: PLR2004

    def __str__(self) -> str:
        low = f"above {self.low:.12g}" if self.above else f"at least {self.low:.12g}"
        low = f"a power of two, {low}" if self.powers else low
        if self.high == math.inf:
            return low
        return f"{low} and {'below' if self.below else 'at most'} {self.high:.12g}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an algorithm.

    Attributes:
        name: The field.
        kind: Type of its value.
        default: Its default.
        choices: The only values; empty where there are others.
        range: Of a number.
        optional: Whether it may be None.
        help: What it is, in one sentence.
        member: Type of each, where the value is a tuple.
        graph: Whether it is a graph, as `CausalGraph.dumps` writes it.
    """

    name: str
    kind: type
    default: Any
    choices: tuple[str, ...]
    range: Range | None
    optional: bool
    help: str
    member: type = str
    graph: bool = False

    def fault(self, value: object) -> str:
        """The fault of a value in words; "" if there is none."""
        if value is None and self.optional:
            return ""
        if self.choices:
            listed = ", ".join(self.choices)
            offered = value in self.choices
            return "" if offered else f"{self.name} must be one of {listed}, not {value!r}"
        if self.kind is tuple:
            return self._fault_of_members(value)
        kinds = (int, float) if self.kind is float else (self.kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and self.kind is not bool):
            return f"{self.name} must be of type {self.kind.__name__}, not {value!r}"
        if self.range is not None and not self.range.holds(value):  # type: ignore[arg-type]
            return f"{self.name} must be {self.range}, not {value!r}"
        return ""

    def _fault_of_members(self, value: object) -> str:
        kinds = (int, float) if self.member is float else (self.member,)
        if isinstance(value, tuple) and all(
            isinstance(item, kinds) and not isinstance(item, bool) for item in value
        ):
            return ""
        return f"{self.name} must be a tuple of {self.member.__name__}, not {value!r}"

    def read(self, plain: Any) -> Any:
        """The value that JSON, TOML or an option says; see `written`."""
        if self.kind is tuple and isinstance(plain, list):
            return tuple(plain)
        if self.optional and self.kind is int and plain == NO_LIMIT:
            return None
        if self.kind is not Knowledge or plain is None:
            return plain
        if isinstance(plain, str):
            return Knowledge.loads(plain) if plain else None
        return Knowledge(**plain)

    def written(self, value: Any) -> Any:
        """A value as TOML can have it."""
        if self.kind is Knowledge:
            return "" if value is None else value.dumps()
        if self.kind is tuple:
            return list(value)
        return NO_LIMIT if value is None else value


def within(
    default: float | None,
    low: float,
    high: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    steps: tuple[float, ...] = (),
) -> Any:
    """A field that holds a number of a range; see `Range`."""
    return field(default=default, metadata={"range": Range(low, high, above, below, steps=steps)})


def row_bound() -> Any:
    """A field that bounds the rows of a site.

    A site with more rows than a plan's bound refuses, so plans with other bounds tell of its rows:
    by powers of two, their order of magnitude.
    """
    return field(default=1 << 20, metadata={"range": Range(2, MAX_ROWS_LIMIT, powers=True)})


def graph_text() -> Any:
    """A field that holds a graph as `CausalGraph.dumps` writes it; empty: none."""
    return field(default="", metadata={"graph": True})


def one_of(default: str, choices: Iterable[str]) -> Any:
    """A field that holds one of the names that a registry lists."""
    return field(default=default, metadata={"choices": tuple(choices)})


@cache
def parameters_of(algorithm: type) -> Mapping[str, Parameter]:
    """The parameters of an algorithm's class by name, in the order of its fields."""
    hints = typing.get_type_hints(algorithm)
    said = _sentences(algorithm)
    return {
        item.name: _parameter(
            item.name, hints[item.name], item.default, item.metadata, said.get(item.name, "")
        )
        for item in fields(algorithm)
    }


def check_parameters(algorithm: object) -> None:
    """Refuse a value of another type, beyond its range or that is no choice.

    Scalars of numpy become Python's, which a plan can have.

    Raises:
        ParameterError: The first such value.
    """
    cls: Any = type(algorithm)
    for name, parameter in parameters_of(cls).items():
        value = _plain(getattr(algorithm, name))
        require(not (fault := parameter.fault(value)), fault)
        object.__setattr__(algorithm, name, value)


def without(parameters: Mapping[str, Any], **had_a_part: bool) -> dict[str, Any]:
    """The parameters but those that had no part."""
    return {name: value for name, value in parameters.items() if had_a_part.get(name, True)}


def require(condition: bool, message: str) -> None:
    """Raise ParameterError with this message unless the condition holds."""
    if not condition:
        raise ParameterError(message)


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def _parameter(
    name: str, hint: Any, default: Any, metadata: Mapping[str, Any], said: str
) -> Parameter:
    options = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else ()
    plain = [option for option in options if option is not type(None)] or [hint]
    choices = metadata.get("choices", ())
    kind = plain[0]
    if typing.get_origin(kind) is Literal:
        kind, choices = str, typing.get_args(kind)
    member = str
    if typing.get_origin(kind) is tuple:
        kind, (member, _) = tuple, typing.get_args(kind)
    return Parameter(
        name, kind, default, choices, metadata.get("range"), bool(options), said, member,
        graph=metadata.get("graph", False),
    )  # fmt: skip


def _sentences(algorithm: type) -> dict[str, str]:
    """The first sentence that the docstrings of a class and its parents say of every field."""
    said = {}
    for parent in reversed(algorithm.__mro__):
        if is_dataclass(parent):
            for name, text in _ENTRY.findall(inspect.cleandoc(parent.__doc__ or "")):
                words = " ".join(text.replace("`", "").split())
                said[name] = _SENTENCE.split(words, maxsplit=1)[0] + "."
    return said
