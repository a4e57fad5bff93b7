"""TOML read strictly into frozen types: no key is unknown, no value of another type."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind", bound=msgspec.Struct)

_TWICE = re.compile(r"Cannot (?:overwrite|mutate|declare).*?( \(at .*\))?$")
_ONE_LINE_EACH = (
    "a key stands there twice{}; have it once, or give each of its entries a line, such as "
    "multiply.glucose = 18.016, and write nothing in braces"
)
_WORDS = {
    "str": ("is not a text", "texts"),
    "Path": ("is not a text", "texts"),
    "int": ("is not a whole number", "whole numbers"),
    "float": ("is not a number", "numbers"),
    "int | float | str": ("is neither a text nor a number", "texts and numbers"),
    "bool": ("is neither true nor false", "true and false"),
    "array": ("is not a list in square brackets", "lists"),
    "object": ("is not a table", "tables"),
}


def parse(content: bytes | str) -> dict[str, Any]:
    """A TOML text as a table; ValueError if none, whose words after a colon may quote a key."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        return tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError("this is not UTF-8 text") from None
    except RecursionError:
        raise ValueError("the file is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of thousands of digits
        twice = _TWICE.match(str(error))
        said = _ONE_LINE_EACH.format(twice[1]) if twice else str(error)
        raise ValueError(f"this is not TOML: {said}") from None


def convert(table: Mapping[str, Any], kind: type[Kind], **given: object) -> Kind:
    """A table of `parse`, and fields given beside it, as a value of a strict, frozen type.

    The type's own checks may raise as well. ValueError where a key is unknown or missing, or a
    value of another type; no value is quoted.
    """
    check_keys(table, [name for name in kind.__struct_encode_fields__ if name not in given])
    try:
        return msgspec.convert({**table, **given}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error))) from None


def check_keys(table: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Raise ValueError for a key that is not allowed; it says which one may be meant."""
    for key in (each for each in table if each not in allowed):
        close = get_close_matches(key, allowed, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(allowed)}"
        raise ValueError(f"unknown key {key!r}; {hint}")


def _in_words(said: str) -> str:
    """A msgspec validation error, such as "Expected `int`, got `str` - at `$.port`", in words."""
    what, _, path = said.partition(" - at ")
    key, item, _ = path.strip("`$.").partition("[")
    named = what.split("`")[1] if "`" in what else ""
    if what.startswith("Object missing"):
        return f"{key}{'.' * bool(key)}{named} is missing"
    if what.startswith("Object contains"):
        return f"unknown key {named!r} in [{key}]"
    if what.startswith("Invalid enum value"):
        return f"{key} is none of the words that it may be"
    if what.startswith("Number out of range"):
        return f"{key} holds what is not a finite number"
    one, many = _WORDS.get(named.removesuffix(" | null"), (f"is not of type {named}", named))
    return f"{key} holds something else than {many}" if item else f"{key} {one}"
