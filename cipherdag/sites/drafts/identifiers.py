"""Whole numbers that say whose a row is, told from numbers that were measured.

By their name, by their digits, or because no two rows agree: were whole numbers of that range drawn
independently, whatever their distribution, n rows without two alike would have a chance of at most
exp(-n(n - 1) / 2 / range).

Leaks:
    Nothing: what is said holds no value and no number of rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import is_integer_text

_PERSONS = (
    r"(patient|person|subject|case|record|encounter|visit|proband|fall|pat)(en|in|innen)?s?|"
    r"hospital|chart|file|admission|account|insurance|order|sample|specimen|study|row|sequence"
)
NAMES = (
    rf"(({_PERSONS}) ?)?(id|ids|nr|nbr|no|num|number|nummer|identifier|key)|mrn|pid|uuid|guid|ssn|"
    r"(no|nr|n|number|numero) (de )?(dossier|patient|secu)|svnr|kvnr|nhs( number)?|"
    r"((.* )?(sur|last|first|fore|family|full|maiden|middle|vor|nach|familien) ?)?name|"
    r"((patient|person|doctor|physician|nurse|contact)s? ?)name|nom|prenom|nombre|apellidos?|"
    r"cognome|e ?mail|(tele)?(ph|f)one?|tel|(.* )?(address|adresse)|street|strasse|initials|"
    r"initialen"
)
"""Names of columns that say who somebody is, in small letters, words apart."""
_OF_NUMBERS = (
    rf"{NAMES}|{_PERSONS}|.* (id|identifier|mrn)|(us)?ubjid|seqn(o|um)?|unnamed( \d+)?|index|"
    r"(.* )?(pt|pat|subj|case|enc|rec|stay|visit)(id|nr|nbr|no|num)"
)
_OF_SOMEBODY = r"patient|person|subject|proband|case|\bpat\b"
_OF_PATIENTS = (
    r"(pati?ent|person|subject|proband|pat|record)(en|in|innen)?s?( ?(id|nr|nbr|no|num|number|"
    r"nummer|identifier|key|code))?|id|pid|mrn|(us)?ubjid|(nhs|kv|sv) ?(number|nr)"
)
_CODED = re.compile(rf"(?!.*({_OF_SOMEBODY})).*(concept|code|class|type|grade)")
_FEWEST = 13
_MOST_REPEATED = 50.0
"""Rows of one number in the mean; numbers of visits repeat less often, kinds of things more."""
_SURE = 20.0
"""Minus the logarithm of the chance below which rows without two alike are none."""
_LONG = 9
"""Digits that no measured number has, unless all end with three zeros."""
_SOME = 20
_MEASURED = ' LOOK: if it was measured, set kind = "continuous".'


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """The whole numbers of a column in one table: rows with one, and how many and which differ."""

    rows: int
    distinct: int
    low: float
    high: float
    long: bool

    @classmethod
    def of(cls, tally: ColumnTally) -> "WholeNumbers | None":
        """Those that a table holds; None where some are not whole, or none is."""
        if not all(map(_may_be_whole, islice(tally.texts, _SOME))):
            return None
        held = tally.numbers(1)
        if held is not None:
            numbers, counts = held.distinct, held.counts
        else:
            values = {text: n for text, n in tally.values().items() if is_integer_text(text)}
            numbers = np.array([float(text) for text in values])
            counts = np.array([*values.values()], dtype=np.int64)
            if any(not _may_be_whole(text) for text in tally.texts):
                return None
        if not len(numbers) or (numbers != np.floor(numbers)).any():
            return None
        low, high = float(numbers.min()), float(numbers.max())
        digits = {len(f"{number:.0f}") for number in (low, high)}
        long = low > 0.0 and min(digits) >= _LONG and len(digits) == 1
        long = long and bool((numbers % 1000.0 != 0.0).any())
        return cls(int(counts.sum()), len(numbers), low, high, long)

    @property
    def surprise(self) -> float:
        """At least minus the logarithm of the chance that no two rows agree; none if some do."""
        if self.distinct < self.rows:
            return -np.inf
        return self.rows * (self.rows - 1) / 2.0 / (self.high - self.low + 1.0)


def _may_be_whole(text: str) -> bool:
    number = text.strip().removesuffix(".0")
    return is_integer_text(number) or not any(map(str.isdigit, number))


def words_of(name: str) -> str:
    """The words of a name in small letters, split where a capital begins one."""
    split = re.sub(r"(?<=[^\W\d_A-Z])(?=[A-Z])", " ", name)
    return " ".join(re.findall(r"[^\W\d_]+|\d+", split)).casefold()


def is_coded(name: str) -> bool:
    """Whether the words of a name say that a column holds codes of things, and not of persons."""
    return _CODED.match(name) is not None


def names_patients(name: str) -> bool:
    """Whether a column is called as the key of patients is."""
    return re.fullmatch(_OF_PATIENTS, words_of(name)) is not None


def without_identifier(column: Column, tables: Sequence[WholeNumbers | None]) -> Column:
    """The column of numbers, ignored where they identify rows; it says why."""
    held = [each for each in tables if each is not None]
    if column.kind != "continuous" or not held or len(held) < len(tables):
        return column
    why = ""
    if all(each.long for each in held):
        why = "these are codes, identifiers or moments, as whole numbers of so many digits are."
    elif sum(each.surprise for each in held) > _SURE:
        why = "no two rows have the same whole number, as with identifiers and numbers of rows."
    elif _is_named(column.name, held):
        why = "by its name and its whole numbers it is an identifier."
    if not why:
        return column
    return replace(column, kind="ignore", comment=f"Ignored: {why}{_MEASURED}")


def _is_named(name: str, held: Sequence[WholeNumbers]) -> bool:
    words = words_of(name)
    if is_coded(words) or re.fullmatch(_OF_NUMBERS, words) is None:
        return False
    return all(
        each.distinct >= _FEWEST and each.rows <= _MOST_REPEATED * each.distinct for each in held
    )
