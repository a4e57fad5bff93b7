"""Numbers, times and names as people read them, and how wide names are on paper, near enough."""

import unicodedata
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

LEAST_SHARE = 0.01
LEAST_PRINTED_PLAIN, LARGEST_PLAIN = 1e-3, 1e6
LEAST_PRINTED_P = 1e-300


def size(count: int) -> str:
    """A number of bytes with its unit, in steps of 1000."""
    units = ("B", "kB", "MB", "GB")
    step = min(len(units) - 1, (len(str(count)) - 1) // 3)
    return f"{count / 1000**step:.{1 if step else 0}f} {units[step]}"


def counted(count: int, noun: str) -> str:
    """How many of what there are: "1 site", "2 sites"."""
    return f"{count} {noun}{'s' * (count != 1)}"


def ranged(least: int, most: int) -> str:
    """A count, or the range that it lies in: "11 to 21"."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def shown(value: float) -> str:
    """A number with at most four digits, with an exponent only where that helps."""
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if value != 0 and not LEAST_PRINTED_PLAIN <= abs(value) < LARGEST_PLAIN:
        return f"{value:.2e}"
    return f"{value:.4g}"


def shown_among(value: float, spread: float) -> str:
    """A number among others of such a spread: with more digits where four would make them equal."""
    if not 0.0 < spread < abs(value) * LEAST_PRINTED_PLAIN:
        return shown(value)
    return f"{value:.{max(0, 1 - Decimal(spread).adjusted())}f}"


def probability(p_value: float, least: float = LEAST_PRINTED_P) -> str:
    """A p-value with three digits; below the least that can be told apart from 0, that it is."""
    return f"{p_value:.3g}" if p_value >= least else f"< {least:.2g}"


def share_shown(share: float) -> str:
    """A share of graphs that were drawn, of which the ends are never certain."""
    if share < LEAST_SHARE:
        return "<1 %"
    return ">99 %" if share > 1.0 - LEAST_SHARE else f"{share:.0%}".replace("%", " %")


def moment(text: str) -> str:
    """A time in ISO 8601 and UTC, to the minute."""
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M UTC") if text else ""


def first_of(names: Sequence[str], most: int = 10, between: str = ", ") -> str:
    """Up to ``most`` names, and how many more there are."""
    rest = len(names) - most
    more = f"{between.strip().strip(',')} and {rest} more" if rest > 0 else ""
    return between.join(names[:most]) + more


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
