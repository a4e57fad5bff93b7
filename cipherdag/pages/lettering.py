"""How wide a variable's name is on paper, near enough, without asking a font."""

from __future__ import annotations

import unicodedata

LONGEST_LABEL = 40
PADDING = 1.6  # of a box, in units of the font size


def cut(name: str, longest: int = LONGEST_LABEL) -> str:
    """The name, or its beginning where it is too long for its place."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def box_width(label: str, font_size: float) -> float:
    """Width of the box around a label, in the unit of the font size."""
    return font_size * (text_width(label) + PADDING)


def text_width(text: str) -> float:
    """Width in units of the font size, close to that of DejaVu Sans."""
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in "iljtfrI.,:;'|!()[] ":
        return 0.4
    if character in "mwMW@%":
        return 0.95
    return 0.71 if character.isupper() else 0.62
