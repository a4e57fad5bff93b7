"""The parameters of an algorithm: one field each, which Python, command line and pages read.

A field's type says what it may hold: a ``Literal`` its choices, ``X | None`` that there may be
none, ``tuple[X, ...]`` any number of values. Its metadata holds a range, or choices that a registry
lists; the class's docstring says what it is, and the first sentence there is its help on the
command line. A field may hold a frozen type of several settings, each of which is an option.
"""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, Union

import msgspec
import numpy as np

from cipherdag.errors import ParameterError
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.questions.combined_evidence import MAX_ROWS_LIMIT

NO_LIMIT = -1  # how a whole number that may be None is written where None cannot be
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8}.*)*)", re.MULTILINE)
_SENTENCE = re.compile(r"(?:[:;]|\.)(?=\s|$)")


Reveal = Literal["auto", "bits", "sums"]
"""What is opened of tests: one bit of each, or the sums over the sites that it is computed from."""
LEVELS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
"""Levels allowed where bits leave a site: runs at any levels could close in on a p-value."""
PENALTIES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Penalties allowed where scores are compared by bits, for the same reason."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``, or the powers of two among them.

    ``above`` excludes ``low``, ``below`` excludes ``high``. ``steps``, if any, are the only values
    that a site with a folder allows where bits leave it.
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
    """One parameter of an algorithm."""

    name: str
    kind: type
    default: Any
    choices: tuple[str, ...]  # the only values; empty where there are others
    range: Range | None
    optional: bool  # whether it may be None
    help: str  # what it is, in one sentence
    member: type = str  # type of each, where the value is a tuple
    graph: bool = False  # whether it is a graph, as `CausalGraph.dumps` writes it
    # the parameters of a frozen type of settings, by name; empty for other types
    parts: Mapping[str, Parameter] = field(default_factory=dict)
    # whether `Algorithm.as_published` alone sets it, so that it is nobody's option
    preset: bool = False

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
        faults = (part.fault(getattr(value, name)) for name, part in self.parts.items())
        return next(filter(None, faults), "")

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
        if self.parts:
            return self.kind(**{name: self.parts[name].read(own) for name, own in plain.items()})
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
        if self.parts:
            return {name: part.written(getattr(value, name)) for name, part in self.parts.items()}
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

    A site with more rows than a plan's bound refuses the plan. Plans with ever other bounds thus
    disclose its number of rows, but only between powers of two.
    """
    return field(default=1 << 20, metadata={"range": Range(2, MAX_ROWS_LIMIT, powers=True)})


def graph_text() -> Any:
    """A field that holds a graph as `CausalGraph.dumps` writes it; empty: none."""
    return field(default="", metadata={"graph": True})


def one_of(default: str, choices: Iterable[str]) -> Any:
    """A field that holds one of the names that a registry lists."""
    return field(default=default, metadata={"choices": tuple(choices)})


def settings(default: Any, ranges: Mapping[str, Range] | None = None) -> Any:
    """A field that holds a frozen type of settings, each an option; some are given ``ranges``."""
    return field(default=default, metadata={"parts": ranges or {}})


def preset(default: Any) -> Any:
    """A field that presets alone set (`Algorithm.as_published`), also of a type of settings."""
    parts: dict[str, Any] = {"parts": {}} if is_dataclass(default) else {}
    return field(default=default, metadata={**parts, "preset": True})


@cache
def parameters_of(algorithm: type) -> Mapping[str, Parameter]:
    """The parameters of an algorithm's class, or of a type of settings, by name, in their order."""
    hints = typing.get_type_hints(algorithm)
    said = _sentences(algorithm)
    declared: list[tuple[str, Any, Mapping[str, Any]]]
    if issubclass(algorithm, msgspec.Struct):
        declared = [(own.name, own.default, {}) for own in msgspec.structs.fields(algorithm)]
    else:
        declared = [(own.name, own.default, own.metadata) for own in _fields(algorithm)]
    return {
        name: _parameter(name, hints[name], default, metadata, said.get(name, ""))
        for name, default, metadata in declared
    }


@cache
def options_of(algorithm: type) -> Mapping[str, Parameter]:
    """The parameters of an algorithm's class by name; each setting of a group stands by itself."""
    options: dict[str, Parameter] = {}
    for name, parameter in parameters_of(algorithm).items():
        parts = parameter.parts or {name: parameter}
        options |= {key: replace(part, preset=parameter.preset) for key, part in parts.items()}
    return options


def flattened(algorithm: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of parameters, also as JSON has them; each setting of a group stands by itself."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        known = parameters_of(algorithm).get(name)
        if known is not None and known.parts and isinstance(value, Mapping):
            flat |= value
        elif known is not None and known.parts and isinstance(value, known.kind):
            flat |= {part: getattr(value, part) for part in known.parts}
        else:
            flat[name] = value
    return flat


def grouped(algorithm: type, flat: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an algorithm's parameters, from values in which each setting stands by itself.

    ParameterError where a setting is of another type, or beyond its range.
    """
    values: dict[str, Any] = {}
    for name, known in parameters_of(algorithm).items():
        given = {key: flat[key] for key in known.parts or (name,) if key in flat}
        if known.parts and given:
            for key, value in given.items():
                require(not (fault := known.parts[key].fault(value)), fault)
            usual = {key: getattr(known.default, key) for key in known.parts}
            given = {name: known.kind(**usual | given)}
        values |= given
    return values


def check_parameters(algorithm: object) -> None:
    """Refuse (ParameterError) a value of the wrong type, out of its range, or not a choice.

    Scalars of numpy become Python's, since a plan can hold only these.
    """
    cls: Any = type(algorithm)
    for name, parameter in parameters_of(cls).items():
        value = _plain(getattr(algorithm, name))
        if parameter.parts and isinstance(value, Mapping):  # settings as JSON has them
            unknown = ", ".join(sorted(value.keys() - parameter.parts.keys()))
            require(not unknown, f"{name} has no setting {unknown}")
            value = grouped(cls, value).get(name, parameter.default)
        require(not (fault := parameter.fault(value)), fault)
        object.__setattr__(algorithm, name, value)


def no_parameter(title: str, name: str, declared: Iterable[str]) -> ParameterError:
    """The error of a parameter that there is not, with the one that may be meant, or all."""
    near = get_close_matches(name, names := [*declared], n=1)
    remedy = f"Did you mean '{near[0]}'?" if near else f"Its parameters are {', '.join(names)}."
    return ParameterError(f"{title} has no parameter '{name}'", remedy=remedy)


def without(parameters: Mapping[str, Any], **had_a_part: bool) -> dict[str, Any]:
    """The parameters without those that had no part in a run, which are given as False."""
    return {name: value for name, value in parameters.items() if had_a_part.get(name, True)}


def require(condition: bool, message: str, *, remedy: str = "") -> None:
    """Raise ParameterError with this message unless the condition holds."""
    if not condition:
        raise ParameterError(message, remedy=remedy)


def _fields(algorithm: Any) -> tuple[Field[Any], ...]:
    return fields(algorithm)


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
    parts: Mapping[str, Parameter] = {}
    if "parts" in metadata:
        ranges = metadata["parts"]
        parts = {
            key: replace(own, range=ranges.get(key, own.range))
            for key, own in parameters_of(kind).items()
        }
    return Parameter(
        name, kind, default, choices, metadata.get("range"), bool(options), said, member,
        graph=metadata.get("graph", False), parts=parts, preset=metadata.get("preset", False),
    )  # fmt: skip


def said_of_fields(kind: type) -> dict[str, str]:
    """What the docstring of a class says of each field, by name, on one line."""
    entries = _ENTRY.findall(inspect.cleandoc(kind.__doc__ or ""))
    return {name: " ".join(text.split()) for name, text in entries}


def _sentences(algorithm: type) -> dict[str, str]:
    """The first sentence on every field in the docstrings of a class and its parents."""
    said: dict[str, str] = {}
    for parent in reversed(algorithm.__mro__):
        if is_dataclass(parent) or issubclass(parent, msgspec.Struct):
            said |= said_of_fields(parent)
    firsts = (_SENTENCE.split(text.replace("`", ""), maxsplit=1)[0] for text in said.values())
    return {name: f"{first}." for name, first in zip(said, firsts, strict=True)}
