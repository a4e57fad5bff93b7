"""The languages that people of a site read: English, and translations of it by gettext.

Messages stand in the sources in English, with named placeholders. Catalogues lie beside, in
``catalogues``; docs/catalogues.py keeps them to the sources. What one lacks is said in English.
"""

import logging
import re
import struct
from dataclasses import dataclass, field
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib import resources
from typing import Final

LANGUAGES: Final = ("en", "de", "es", "fr")
COMPOSED: Final = (
    "sites that contribute to {question}",
    "{question}, {n} replicates",
    "FedCFL: {question}",
    "{question}, combined by {combination}",
    "{n} tests of pairs",
    "votes on edges",
    "kinds of {n} variables",
    "kinds of {n} variables, and where numbers lie",
    "worst-case regret of {n} graphs",
    "worst-case regret of {n} families",
    "sum of regrets of {n} families",
    "beliefs of {method}, {combination}, round {n}",
    (
        "Each site shares keys with {degree} of the {others} others, drawn by lot once all keys "
        "were fixed, and {pieces} of them recover its mask if it leaves. Where {collude} that "
        "could not foresee the lot, and the coordinator says which {n} left, it reads anything but "
        "sums over all others with a chance of {exposure} at most; where {leaving} leave by "
        "chance, the run ends without a result with a chance of {loss} at most."
    ),
    "{n} collude",
    "no site colludes",
    (
        "The coordinator learns which variables the schema says to determine one another: "
        "{relations} of numbers {numbers}."
    ),
    "{n} relation",
    "{n} relations",
    "with run {run} of {day} it would show the answers of {sites} by subtraction",
    "with run {run} of {day} it would show sums and differences of {sites} by subtraction",
    "the rows of {sites} changed since an earlier run: they are asked anew",
    "'{first}' and {others}",
    "there is no algorithm named {name}",
    "no column is marked as a label",
)
"""Sentences that other rooms compose, with the names of what stands in them."""
_BROKEN: Final = (OSError, ValueError, LookupError, AttributeError, struct.error)
_PLACEHOLDER = re.compile(r"\\{(\w+)\\}")


log = logging.getLogger("cipherdag.language")


class _Spaced(int):
    """A number with spaces between thousands: a comma is a decimal point to some readers."""

    def __format__(self, form: str) -> str:
        return super().__format__(form).replace(",", " ")


@dataclass(frozen=True, slots=True)
class Language:
    """Says English messages in the language of ``code``; English itself without a catalogue."""

    code: str = "en"
    catalogue: NullTranslations = field(default_factory=NullTranslations, repr=False)

    def __call__(self, message: str, /, **values: object) -> str:
        """The message, with these values in its placeholders; nothing of it is read as markup."""
        said = self.catalogue.gettext(message) if message else ""
        return self._filled(said, message, values)

    def counted(self, one: str, many: str, n: int, **values: object) -> str:
        """The message for so many, ``{n}``, in the form that the language has for this number."""
        said, english = self.catalogue.ngettext(one, many, n), one if n == 1 else many
        return self._filled(said, english, {"n": n, **values})

    def of(self, text: str) -> str:
        """English text of another room: a message, or one of `COMPOSED` with its values in it."""
        if self.code == "en" or (said := self(text)) != text:
            return text if self.code == "en" else said
        for message, pattern in _patterns().items():
            if match := pattern.fullmatch(text):
                parts = {name: self.of(each) for name, each in match.groupdict().items()}
                return self(message, **parts)
        return text

    def _filled(self, message: str, english: str, values: dict[str, object]) -> str:
        if self.code != "en":
            values = {k: _Spaced(v) if type(v) is int else v for k, v in values.items()}
        try:
            return message.format(**values) if values else message
        except _BROKEN:  # its translation has other placeholders
            return english.format(**values)


ENGLISH: Final = Language()


@cache
def language(code: str) -> Language:
    """The language of a code of `LANGUAGES`; English, with an error in the log, if not readable."""
    if code == ENGLISH.code:
        return ENGLISH
    path = resources.files(__package__).joinpath("catalogues", f"{code}.mo")
    try:
        with path.open("rb") as file:
            return Language(code, GNUTranslations(file))
    except _BROKEN as error:
        log.error("said in English, since %s cannot be read: %s", path, error)  # noqa: TRY400
        return ENGLISH


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """The patterns of all composed messages; a number has digits alone."""
    number = {"n": r"[\d,]+"}
    return {
        message: re.compile(
            _PLACEHOLDER.sub(
                lambda match: f"(?P<{match[1]}>{number.get(match[1], '.+?')})", re.escape(message)
            )
        )
        for message in COMPOSED
    }
