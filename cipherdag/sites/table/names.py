"""Normal forms of what is written in a table: names, category values and numbers.

Two sites agree on a name only if both write it the same way. Names are compared in Unicode
normalisation form C (UAX #15), without surrounding white space, and sorted by code point. Case
counts. Characters that cannot be seen are refused, so that no two names look alike and differ.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import SchemaError

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # Persian and Indic words are spelt with them
ALPHABETS = frozenset(
    ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "COPTIC", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL")
)
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""What Unicode calls letters or marks, and no screen shows."""
LARGEST_EXACT = 2**53
_PLAIN_NUMERAL = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>0|[1-9][0-9]*)(?:\.(?P<part>[0-9]*))?(?P<power>[eE][+-]?[0-9]+)?"
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_TRUTH = (
    frozenset(("1", "true", "yes", "y", "ja", "j", "wahr", "oui", "vrai", "si", "sim")),
    frozenset(("0", "false", "no", "n", "nein", "falsch", "non", "faux", "nao")),
)
_SEXES = (
    frozenset(("f", "female", "w", "weiblich", "frau", "femme", "feminin", "mujer", "femenino")),
    frozenset(("m", "male", "maennlich", "mannlich", "mann", "h", "homme", "masculin", "hombre")),
)
_CLOSE = 0.85


def normalise_name(text: str) -> str:
    """The name in Unicode form C without surrounding white space; applying it twice is the same."""
    return unicodedata.normalize("NFC", text).strip()


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names by Unicode code point, which no locale changes: "Theatre" before "Theft"."""
    return tuple(sorted(names))


def sort_categories(texts: Iterable[str]) -> tuple[str, ...]:
    """Whole numbers by size, words for false before those for true, other texts by code point."""
    listed = sorted(texts)
    if all(map(is_integer_text, listed)):
        return tuple(sorted(listed, key=int))
    if None not in map(truth_value, listed):
        listed.sort(key=lambda text: bool(truth_value(text)))
    return tuple(listed)


def hidden_character(text: str) -> str | None:
    """The first invisible or control character as "U+200B", or None.

    The two joiners U+200C and U+200D are no such character: spelling needs them.
    """
    for character in text:
        if unicodedata.category(character) in _HIDDEN_CATEGORIES and character not in _JOINERS:
            return f"U+{ord(character):04X}"
    return None


def mixed_words(text: str) -> dict[str, tuple[str, ...]]:
    """Words that mix alphabets with letters of one shape, or are of another one than most words.

    A word of a single letter, as in "β-blocker", is left out. Of each such word the alphabets, by
    their names in Unicode; none for an invisible letter, which is found, too.
    """
    words = re.findall(r"[^\W\d_]+", text)
    alphabets = {word: _alphabets(word) for word in words}
    usual = Counter(each for word in words for each in alphabets[word]).most_common(1)
    most = {usual[0][0]} if usual else set()
    mixed: dict[str, tuple[str, ...]] = {}
    for word, letters in alphabets.items():
        if len(letters) > 1 or (len(word) > 1 and letters - most):
            mixed[word] = tuple(sorted(letters))
    return mixed | {visible(each): () for each in text if each in _BLANK_LETTERS}


def _alphabets(word: str) -> set[str]:
    first_words = {unicodedata.name(letter, "").split(" ")[0] for letter in word}
    return {each.title() for each in first_words & ALPHABETS}


def visible(text: str) -> str:
    """The text, in escaped ASCII if it has an invisible character."""
    if hidden_character(text) is None and not _BLANK_LETTERS & {*text}:
        return text
    return text.encode("unicode_escape").decode("ascii")


def first_repeat(names: Sequence[str]) -> tuple[int, int] | None:
    """Positions of the first name that occurs a second time, or None."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if name in seen:
            return seen[name], position
        seen[name] = position
    return None


def normalise_value(text: str) -> str:
    """A category value as it is compared: name normal form, whole numbers as plain integers.

    "1", "+1", "1.0" and "1e0" are all "1", so that a column keeps its categories when a missing
    value turns its integers into floats. "01" stays "01": a leading zero marks a code.
    """
    text = normalise_name(text)
    match = _PLAIN_NUMERAL.fullmatch(text)
    if match is None:
        return text
    whole = match["whole"]
    if match["power"] is not None:
        number = abs(float(text))
        if not number.is_integer() or number > LARGEST_EXACT:
            return text
        whole = str(int(number))
    elif (match["part"] or "").strip("0"):
        return text
    return f"-{whole}" if match["sign"] == "-" and whole != "0" else whole


def loose_forms(text: str) -> frozenset[str]:
    """Normal forms of a word that its spellings share: no case, accents, blanks or marks."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    both = (unicodedata.normalize("NFKD", form) for form in (folded, folded.translate(_UMLAUTS)))
    forms = frozenset("".join(filter(str.isalnum, form)) for form in both) - {""}
    return forms or frozenset({folded.strip()})


def truth_value(text: str) -> bool | None:
    """The truth value that a word stands for, or None if it is no such word."""
    return _first_of_two(text, _TRUTH)


def is_female(text: str) -> bool | None:
    """Whether a word stands for female and not male; None if it is no such word."""
    return _first_of_two(text, _SEXES)


def _first_of_two(text: str, words: tuple[AbstractSet[str], AbstractSet[str]]) -> bool | None:
    forms = loose_forms(text)
    return None if forms.isdisjoint(words[0] | words[1]) else not forms.isdisjoint(words[0])


def nearest(text: str, candidates: Sequence[str]) -> str | None:
    """The candidate most like a text, or None: by loose form, else truth value, else letters."""
    forms, truth = loose_forms(text), truth_value(text)
    matches = [each for each in candidates if forms & loose_forms(each)]
    if truth is not None:
        matches += [each for each in candidates if truth_value(each) is truth]
    by_form = {min(loose_forms(each)): each for each in candidates}
    matches += [by_form[each] for each in get_close_matches(min(forms), by_form, 1, _CLOSE)]
    return next(iter(matches), None)


def check_column(name: str, columns: Sequence[str]) -> None:
    """Raise SchemaError where none of these columns has the name."""
    if normalise_name(name) not in columns:
        near = nearest(name, columns)
        raise SchemaError(
            "there is no such column",
            column=visible(name),
            remedy=f"Did you mean '{near}'?" if near else f"The columns are {', '.join(columns)}.",
        )


def number_text(value: float) -> str:
    """A number as the text a CSV would hold: "1" for 1.0, "" for NaN, shortest exact form else."""
    if math.isnan(value):
        return ""
    if value.is_integer() and abs(value) <= LARGEST_EXACT:
        return str(int(value))
    return repr(value)


def is_integer_text(value: str) -> bool:
    """True if a normalised value is a whole number."""
    return _INTEGER.fullmatch(value) is not None


def is_plain_number(value: str) -> bool:
    """True if a normalised value is a finite number and not a code such as "007"."""
    plain = _PLAIN_NUMERAL.fullmatch(value) or value.startswith((".", "-.", "+."))
    return bool(plain) and parse_number(value) is not None


def parse_number(text: str) -> float | None:
    """The finite number of a trimmed text in ASCII digits, or None; stricter than ``float``."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def parse_numbers(
    texts: Sequence[str], missing: AbstractSet[str]
) -> tuple[NDArray[np.float64], int]:
    """The numbers of n cells, NaN for  and trimmed ``missing``; the first that is none, or -1."""
    present = [text != "" and text not in missing for text in texts]
    cells = [text for text, there in zip(texts, present, strict=True) if there]
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return _parse_one_by_one(texts, missing)
    joined = "".join(cells)
    # "n" is in every spelling of nan and infinity that float() takes
    if not joined.isascii() or any(odd in joined for odd in "_nN") or np.isinf(numbers).any():
        return _parse_one_by_one(texts, missing)
    values = np.full(len(texts), np.nan)
    values[np.array(present, dtype=np.bool_)] = numbers
    return values, -1


def _parse_one_by_one(
    texts: Sequence[str], missing: AbstractSet[str]
) -> tuple[NDArray[np.float64], int]:
    values = np.full(len(texts), np.nan)
    for position, text in enumerate(texts):
        trimmed = normalise_name(text)
        if trimmed == "" or trimmed in missing:
            continue
        number = parse_number(trimmed)
        if number is None:
            return values, position
        values[position] = number
    return values, -1
