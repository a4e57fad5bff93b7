"""What in a column looks like a mistake, in a sentence and what to do about it.

Nothing here decides: a suspicion is shown above a column of a draft, by `site check`, or before a
run in one process, and a person looks. Each rule would rather stay silent than cry wolf.
"""

# ruff: noqa: PLR2004 - the rules' own numbers stand beside what they rule
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.drafts.spellings import grouped
from cipherdag.sites.drafts.tally import Numbers, Values
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import is_other_number, stands_for_missing
from cipherdag.sites.table.file_description import DECLARED, PLAIN, Notation
from cipherdag.sites.table.names import is_plain_number, truth_value

_SENTINELS = frozenset(
    (1.0, *(float(digit * length) for digit in "789" for length in range(1, 7)))
) - {7.0, 8.0}
_POSITIVE = _SENTINELS - {1.0}
_SURE_MARK = -99.0  # a mark of at most this is never a measured value
_FEWEST_CODES = 30  # rows
_FAR = 12.0  # robust standard deviations
_NORMAL = 1.4826  # from a median deviation to the standard deviation of a Gaussian
_REAL_WORDS = frozenset(("none", "nil", "*"))  # mostly "no complication", or a rank of stars
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})\2(\d{2,4})([ T].*)?")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something to look at.

    Attributes:
        kind: What it may be, without a value of the data.
        detail: The same with marks and categories concerned, and no other value and no number of
            rows, since a draft may leave.
        remedy: What to do if it is so.
    """

    kind: str
    detail: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.detail} {self.remedy}"


def column_suspicions(column: Column, values: Counter[str], fewest: int = 0) -> list[Suspicion]:
    """Suspicions of a drafted column, from how often each value occurs in it.

    They name no value that fewer than ``fewest`` rows hold, except usual marks of missing ones.
    """
    texts = [value for value in values if value and value not in column.missing]
    if column.kind == "ignore":
        return suspicious_dates(texts) if len(texts) > 1 else []
    if column.kind == "discrete":
        texts = [text for text in texts if text in column.categories]
    plain = dict.fromkeys(text for text in texts if is_plain_number(text))
    numbers = {float(text): values[text] for text in plain}
    distinct = np.array(sorted(numbers))
    counts = np.array([numbers[value] for value in sorted(numbers)], dtype=np.int64)
    odd = [text for text in texts if text not in plain]
    suspicions = suspicious_numbers(distinct, counts, fewest)
    if column.kind == "continuous" and odd:
        suspicions.append(_odd_cells(odd))
    if column.kind == "discrete":
        suspicions += suspicious_categories(column.categories) + suspicious_dates(texts)
        padded = [text for text in odd if (text.lstrip("0") or "0") in plain]
        suspicions += [_padded(padded)] if padded else []
        others = [text for text in odd if not (text in padded or stands_for_missing(text))]
        suspicions += [_odd_cells(others)] * (0 < len(others) < len(numbers))
    return suspicions


def _padded(texts: Sequence[str]) -> Suspicion:
    """Numbers with leading zeros that are categories without them, too."""
    pairs = ", ".join(f'"{text.lstrip("0") or "0"}" = ["{text}"]' for text in sorted(texts))
    return Suspicion(
        "numbers with and without leading zeros",
        f"'{min(texts)}' and '{min(texts).lstrip('0') or '0'}' are two categories here.",
        f"If they mean the same, keep one of them and write synonyms = {{ {pairs} }}.",
    )


def _odd_cells(odd: Sequence[str]) -> Suspicion:
    """Cells that are no numbers, among numbers; a word that may name somebody is not written."""
    missing_marks = sorted(text for text in odd if stands_for_missing(text))
    named = f", such as '{missing_marks[0]}'" if missing_marks else ""
    marks = ", ".join(f'"{each}"' for each in missing_marks)
    notation = all(map(is_other_number, odd))
    what = "numbers in another notation" if notation else "words"
    remedy = f"If they mean a missing value, write missing = [{marks or '...'}]; or correct them."
    return Suspicion(
        f"{what} among numbers",
        f"Some rows hold {what} among numbers{named}.",
        f"Declare decimal and thousands {DECLARED}." if notation else remedy,
    )


def suspicious_numbers(
    distinct: NDArray[np.float64], counts: NDArray[np.int64], fewest: int = 0
) -> list[Suspicion]:
    """Suspicions of distinct numbers, ascending, shape (m,): missing marks, outliers, and codes.

    A mark that may be a value, such as 99, is named only if ``fewest`` rows or more hold it.
    """
    if len(distinct) < 3:
        return []
    marks = _sentinels(distinct, counts)
    is_measured = ~np.isin(distinct, marks)
    suspicions = []
    if len(marks):
        rare = (np.isin(distinct, marks) & (counts < fewest) & (distinct > _SURE_MARK)).any()
        listed = "..." if rare else ", ".join(f"{mark:g}" for mark in marks)
        named = "A number that few rows hold" if rare else listed
        suspicions.append(
            Suspicion(
                "a number that often marks a missing value",
                f"{named} lies apart from all other numbers and often marks a missing value.",
                f"If so, write missing = [{listed}].",
            )
        )
    measured = distinct[is_measured], counts[is_measured]
    suspicions += [*_far(*measured)] or [*_skewed(*measured)]
    if counts.sum() >= _FEWEST_CODES:
        suspicions += _codes(measured[0])
    return suspicions


def suspicious_categories(categories: Sequence[str]) -> list[Suspicion]:
    """Categories that look like spellings of one, or that often mark a missing value."""
    suspicions = [*_words(categories)]
    groups = grouped(categories, {}, reads=truth_value)
    for group in (entry for each in groups for entry in _by_number(each) if len(entry) > 1):
        # words before numbers, small letters before capitals
        first, *others = sorted(group, key=lambda t: (is_plain_number(t), t != t.lower(), t))
        listed = ", ".join(f'"{other}"' for other in others)
        suspicions.append(
            Suspicion(
                "two spellings of a category",
                f"'{first}' and {' and '.join(map(repr, others))} look like one category.",
                f'If so, keep one of them and write synonyms = {{ "{first}" = [{listed}] }}.',
            )
        )
    return suspicions


def _by_number(group: Sequence[str]) -> list[list[str]]:
    """The spellings grouped by number if all are numbers: -1 and 1 are two categories."""
    if not all(is_plain_number(each) for each in group):
        return [list(group)]
    values = sorted({float(each) for each in group})
    return [[each for each in group if float(each) == value] for value in values]


def _words(categories: Sequence[str]) -> Iterator[Suspicion]:
    """Categories such as "NA", which may be a missing value, and may be Namibia."""
    marks = missing_marks(categories)
    if not marks:
        return
    texts = ", ".join(f'"{mark}"' for mark in marks)
    yield Suspicion(
        "a category that often marks a missing value",
        f"{' or '.join(map(repr, marks))} is a category here and often marks a missing value.",
        f"If so, take it out of `categories` and write missing = [{texts}].",
    )


def missing_marks(categories: Sequence[str]) -> list[str]:
    """Those of the categories that often mark a missing value."""
    signs = any("+" in category for category in categories)  # then "-" is a sign, too
    return [
        category
        for category in categories
        if stands_for_missing(category)
        and category.casefold() not in _REAL_WORDS
        and not (signs and set(category) == {"-"})
    ]


def suspicious_dates(texts: Iterable[str]) -> list[Suspicion]:
    """The suspicion that texts are dates, with the formats that fit."""
    listed = list(texts)
    parts = [match for text in listed if (match := _DATE.fullmatch(text))]
    if len(parts) < 2 or len(parts) < 0.9 * len(listed):
        return []
    rule = 'If so, set kind = "continuous" and date = "days since 2020-01-01"'
    if all(PLAIN.date(text) for text in listed):
        return [Suspicion("dates", "These are dates.", f"{rule}.")]
    mark = parts[0][2]
    formats = [form.replace(".", mark) for form in ("%d.%m.%Y", "%m.%d.%Y", "%Y.%m.%d")]
    whole = [match[0].removesuffix(match[5] or "") for match in parts]
    fitting = [each for each in formats if all(Notation(date_format=each).date(t) for t in whole)]
    said = " or ".join(f'"{each}"' for each in fitting) or "of its kind"
    return [
        Suspicion(
            "dates", "These look like dates.", f"{rule}, and date_format = {said} {DECLARED}."
        )
    ]


def suspicious_sites(values: dict[str, NDArray[np.float64]]) -> list[Suspicion]:
    """Sites whose numbers all lie beyond those of the others by a factor, as in another unit."""
    present = {name: each[~np.isnan(each)] for name, each in values.items()}
    inner = {
        name: np.quantile(each, [0.05, 0.5, 0.95]) for name, each in present.items() if len(each)
    }
    suspicions = []
    for name, (low, middle, high) in inner.items():
        others = [each for other, each in inner.items() if other != name]
        middles = float(np.median([each[1] for each in others])) if others else 0.0
        if np.sign(middle) * np.sign(middles) <= 0 or len(present[name]) < 20:
            continue
        ratio = float(middle) / middles  # which may be beyond all floats, as inf
        disjoint = all(low > each[2] for each in others) or all(high < each[0] for each in others)
        if disjoint and not 1 / 3 < ratio < 3:
            suspicions.append(
                Suspicion(
                    "another unit at one site",
                    f"The numbers of '{name}' are about {ratio:.2g} times those of the others.",
                    "Is this another unit? Convert them, and declare unit and plausible.",
                )
            )
    return suspicions if len(suspicions) < len(inner) else suspicions[:1]


def _sentinels(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers such as -999 that lie apart from all others, and a 0 far below the others."""
    named = np.where(
        distinct < 0.0, np.isin(-distinct, [*_SENTINELS]), np.isin(distinct, [*_POSITIVE])
    )
    others = distinct[~named]
    if len(others) < 2:
        return distinct[:0]
    low, high = float(others[0]), float(others[-1])
    spread, most = high - low, counts[~named].max()
    marks = []
    for value, times in zip(distinct[named], counts[named], strict=True):
        if low <= value <= high:
            continue
        negative_alone = value < 0 <= low
        distant = min(abs(value - low), abs(value - high)) > spread
        frequent = abs(value) >= 99 and times >= 5 and times > 3 * most
        if negative_alone or distant or frequent:
            marks.append(value)
    if _odd_zero(distinct, counts):
        marks.append(0.0)
    return np.array(sorted(marks))


def _odd_zero(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> bool:
    """True if 0 stands in several rows, far below numbers that are all positive."""
    zero_index = int(np.searchsorted(distinct, 0.0))
    if zero_index >= len(distinct) or distinct[zero_index] != 0.0 or counts[zero_index] < 2:
        return False
    above, times = distinct[zero_index + 1 :], counts[zero_index + 1 :]
    if len(above) < 10:
        return False
    middle, deviation = _robust(above, times)
    return bool(middle > 3 * deviation and above[0] >= 0.25 * middle)


def _far(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> Iterator[Suspicion]:
    """Few numbers beyond all others by more than the others' whole range."""
    if len(distinct) < 20:
        return
    middle, deviation = _robust(distinct, counts)
    far = np.abs(distinct - middle) > _FAR * deviation
    rest = distinct[~far]
    if deviation == 0 or not far.any() or counts[far].sum() > 0.05 * counts.sum():
        return
    gaps = np.maximum(rest[0] - distinct[far], distinct[far] - rest[-1])
    if gaps.min() <= rest[-1] - rest[0]:
        return
    yield Suspicion(
        "numbers far from all others",
        "Few numbers lie far from all others.",
        "Is it another unit, or a decimal point? Correct them, or declare plausible.",
    )


def _skewed(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> Iterator[Suspicion]:
    """Positive numbers that are skewed, while their logarithms are not."""
    if len(distinct) < 50 or counts.sum() < 100 or distinct[0] <= 0.0:
        return
    (tail, middle), (tail_of_logs, middle_of_logs) = (
        _skewness(each, counts) for each in (distinct, np.log(distinct))
    )
    if tail < 2.0 or abs(tail_of_logs) > 1.0 or middle < max(0.2, abs(middle_of_logs)):
        return
    yield Suspicion(
        "skewed numbers",
        "Most numbers are small beside few large ones; their logarithms are nearly symmetric.",
        "A graph of numbers is mostly better of logarithms: unless these are times until an "
        "event, consider to write logarithms into the data of every site.",
    )


def _skewness(ascending: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, float]:
    """Skewness by the third moment, and by the deciles, from -1 to 1 (Hinkley, 1975)."""
    rows, middle = counts.cumsum(), np.average(ascending, weights=counts)
    deviations = ascending - middle
    spread = np.average(deviations**2, weights=counts) ** 0.5
    low, half, high = ascending[np.searchsorted(rows, np.array([0.1, 0.5, 0.9]) * rows[-1])]
    by_deciles = (high + low - 2.0 * half) / (high - low) if high > low else 0.0
    return float(np.average((deviations / spread) ** 3, weights=counts)), float(by_deciles)


def _codes(distinct: NDArray[np.float64]) -> Iterator[Suspicion]:
    """Many whole numbers of equally many digits: days, codes or years."""
    whole = len(distinct) > 12 and bool((distinct == np.floor(distinct)).all())
    if not whole or distinct[0] < 1000 or len(str(int(distinct[0]))) != len(str(int(distinct[-1]))):
        return
    days = [f"{int(value)}" for value in distinct]
    eight = Notation(date_format="%Y%m%d")
    if len(days[0]) == 8 and all(day[:2] in {"19", "20"} and eight.date(day) for day in days):
        yield Suspicion(
            "dates",
            "These look like dates written as whole numbers.",
            f'If so, set date = "days since 2020-01-01", and date_format = "%Y%m%d" {DECLARED}.',
        )
        return
    if distinct[0] >= 1850 and distinct[-1] <= 2100:
        return  # years are numbers
    yield Suspicion(
        "codes in place of numbers",
        f"Whole numbers of {len(days[0])} digits each may be codes, such as postal codes.",
        'If so, set kind = "ignore", or "discrete" with categories.',
    )


def _robust(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, float]:
    """Median and robust standard deviation of numbers with counts."""
    middle = _weighted_median(distinct, counts)
    deviations = np.abs(distinct - middle)
    order = np.argsort(deviations)
    return middle, _NORMAL * _weighted_median(deviations[order], counts[order])


def _weighted_median(ascending: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    return float(ascending[np.searchsorted(counts.cumsum(), counts.sum() / 2)])


def with_looks(column: Column, values: Values, fewest: int) -> Column:
    """The column that says what looks like a mistake, from how often each value occurs in it."""
    if isinstance(values, Numbers):
        seen = suspicious_numbers(values.distinct, values.counts, fewest)
    else:
        seen = column_suspicions(column, values, fewest)
    looks = "".join(f" LOOK: {each}" for each in seen)
    return replace(column, comment=f"{column.comment}{looks}".strip())
