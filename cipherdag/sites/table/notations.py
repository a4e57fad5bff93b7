"""How a file writes numbers and dates, and what they are in the study's own notation.

The study's notation has a decimal point, no thousands separator and dates as ISO 8601 writes them
(2024-05-31, with a time of the day if need be). Another one is declared, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cipherdag.sites.table.names import normalise_name

_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?Z?"
)
_RULE = re.compile(r"(days|weeks|years) since ([0-9]{4}-[0-9]{2}-[0-9]{2})")
_DAYS: Final = {"days": 1.0, "weeks": 7.0, "years": 365.2425}  # of the Gregorian calendar
_DAY_S = 86400.0
_SPACES = " \u00a0\u202f"
NO_NUMBER = "\0"
"""Stands for a cell that is no number in its file's notation, though it looks like one."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How a file writes numbers and dates.

    Attributes:
        decimal: What stands before the decimals: "." or ",".
        thousands: What groups the digits in threes, such as "." or a space; nothing if empty.
        date_format: Of its dates, as ``datetime.strptime`` has it; ISO 8601 if empty.
    """

    decimal: str = "."
    thousands: str = ""
    date_format: str = ""

    @property
    def plain(self) -> bool:
        """Whether its numbers are those of the study."""
        return self.decimal == "." and not self.thousands

    def categories(self, texts: Sequence[str]) -> Sequence[str]:
        """The cells with every number in the study's notation, and all else as it stands."""
        if self.plain:
            return texts
        return [self._numeral(text) or text for text in texts]

    def numerals(self, texts: Sequence[str], missing: AbstractSet[str]) -> Sequence[str]:
        """The cells of a column of numbers: ``NO_NUMBER`` for one of another notation.

        What is declared as ``missing``, trimmed, stays as it is.
        """
        if self.plain:
            return texts
        other = re.compile(r"[0-9.,\s'+-]*[.,][0-9.,\s'+-]*")
        found = []
        for text in texts:
            numeral = self._numeral(text)
            odd = numeral is None and other.fullmatch(text) and normalise_name(text) not in missing
            found.append(NO_NUMBER if odd else numeral or text)
        return found

    def date(self, text: str) -> datetime | None:
        """The moment that a trimmed cell writes, without a time zone, or None."""
        try:
            if self.date_format:
                return datetime.strptime(text, self.date_format).replace(tzinfo=None)  # noqa: DTZ007 - hospitals write local time
            if _ISO.fullmatch(text) is None:
                return None
            return datetime.fromisoformat(text.removesuffix("Z"))
        except ValueError:
            return None

    def _numeral(self, text: str) -> str | None:
        group = f"[{_SPACES}]" if self.thousands == " " else re.escape(self.thousands)
        grouped = rf"[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|" if self.thousands else ""
        mark = re.escape(self.decimal)
        number = rf"([+-]?)((?:{grouped}[0-9]+)?)(?:{mark}([0-9]*))?((?:[eE][+-]?[0-9]+)?)"
        match = re.fullmatch(number, normalise_name(text))
        if match is None or not (match[2] or match[3]):
            return None
        whole = re.sub("[^0-9]", "", match[2])
        part = f".{match[3]}" if match[3] else ""
        return f"{match[1]}{whole or '0'}{part}{match[4]}"


PLAIN = Notation()


@dataclass(frozen=True, slots=True)
class DateRule:
    """How dates count as numbers, such as "days since 2000-01-01".

    Attributes:
        unit: "days", "weeks", or "years" of 365.2425 days.
        origin: The moment that is 0.
    """

    unit: str
    origin: datetime

    @classmethod
    def parse(cls, text: str) -> DateRule | None:
        """The rule that a text writes, or None."""
        match = _RULE.fullmatch(text)
        origin = PLAIN.date(match[2]) if match else None
        return cls(match[1], origin) if match and origin else None

    def number(self, moment: datetime) -> float:
        """The date as a number in the rule's unit; hours are fractions of a day."""
        return (moment - self.origin).total_seconds() / _DAY_S / _DAYS[self.unit]
