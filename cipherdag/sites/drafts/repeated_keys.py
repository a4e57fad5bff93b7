"""Columns that may say whose visit a row is: values that repeat, within which other columns agree.

A ward, a practice or a family repeats in the same manner. So a site is asked, and answers once: by
`kind = "patient"`, or by `rows = "persons"`.

Leaks:
    Nothing: what is said holds names of columns, no value and no number of rows.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.pages.numerals import counted, first_of
from cipherdag.sites.drafts.column_values import column_values
from cipherdag.sites.drafts.identifiers import words_of
from cipherdag.sites.drafts.suspicions import Suspicion
from cipherdag.sites.drafts.table_suspicions import BEYOND_CHANCE, FEW_SHOWN, SERIAL, ranked
from cipherdag.sites.table.names import normalise_value, parse_number
from cipherdag.sites.table.reading import TableSource, open_table
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable

FEWEST_KEYS = 20
LEAST_REPEATED, MOST_REPEATED = 1.05, 50.0  # rows per value of a column that may name patients
MOST_LOOKED_AT = 20  # columns, at most, whose values are held
HAVE_DIGITS = 0.5  # least share of a key's values that have a digit, unlike words
_CODES = re.compile(
    r"(?<![a-z])(atc|concept|cpt|diag|diagnos[ei]s?|drg|drug|icd|loinc|ops|plz|post(al|code|leitzahl)"
    r"|snomed|zip|zipcode)(?![a-z])"
)
"""Words in the names of columns of codes, one of which many persons share."""
_OF_VISITS = re.compile(r"\b(case|fall|visits?|encounter|stay|hadm|admission|aufenthalt|sejour)\b")
_OF_PERSONS = re.compile(r"\b(pati?ent\w*|pat|person|subj(ect)?|subjid|usubjid|mrn|pid|proband)\b")
_SEX = re.compile("sex|gender|geschlecht|sexe|genre|sexo|genero|sesso")
NEARLY_ALL = 0.98  # least share of groups that hold one value where a column "never changes"


def key_question(
    source: TableSource, table: SiteTable, columns: Sequence[str]
) -> tuple[tuple[str, ...], Suspicion] | None:
    """Which of some columns may be the key of patients, the likeliest first, as one question.

    First come columns within whose values sex never changes. Then decide, one after the other: the
    column's name, how many others agree within its values, and fewer values.

    Args:
        source: What the table was read from.
        table: All its rows.
        columns: Names of columns that may be keys.

    Returns:
        Their names, and the question; None once the site has answered, or where none is one.
    """
    if table.schema.answered or not columns:
        return None
    study = {entry.name: _standard(ranked(entry)) for entry in column_values([table])}
    described = table.schema.described(source)
    groups_of = _groups(described, columns[:MOST_LOOKED_AT])
    codes = [groups for name, groups in groups_of.items() if _is_code(name)]
    candidates = []
    for name, groups in groups_of.items():
        sizes = np.bincount(groups[groups >= 0])
        if len(groups) != table.rows or len(sizes) < FEWEST_KEYS or _is_code(name):
            continue
        if not LEAST_REPEATED <= sizes.mean() <= MOST_REPEATED:
            continue
        agreeing = [v for v, values in study.items() if v != name and _agrees(values, groups)]
        if agreeing and not any(_determines(each, groups) for each in codes):
            constant = tuple(v for v in agreeing if _never_changes(study[v], groups))
            candidates.append(_Candidate(name, tuple(agreeing), constant, len(sizes)))
    names = {each.name for each in candidates}
    candidates = sorted((each.without(names) for each in candidates), key=lambda each: each.rank)
    return (tuple(each.name for each in candidates), _asked(candidates)) if candidates else None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A column that may be the key; those that agree, or are constant, in rows of one value."""

    name: str
    agreeing: tuple[str, ...]
    constant: tuple[str, ...]
    values: int

    def without(self, names: AbstractSet[str]) -> "_Candidate":
        """The same, but with no column of these names as evidence."""
        agreeing, constant = (
            tuple(v for v in each if v not in names) for each in (self.agreeing, self.constant)
        )
        return _Candidate(self.name, agreeing, constant, self.values)

    @property
    def rank(self) -> tuple[object, ...]:
        """Smaller for a likelier key."""
        words = words_of(self.name)
        by_name = bool(_OF_VISITS.search(words)) - bool(_OF_PERSONS.search(words))
        sex = any(_SEX.fullmatch(words_of(each)) for each in self.constant)
        return not sex, by_name, -len(self.agreeing), self.values, self.name


def _asked(candidates: Sequence[_Candidate]) -> Suspicion:
    best, *others = candidates
    if others:
        named = " and ".join(f"'{each.name}'" for each in candidates)
        also = f"each of its values has one {first_of(best.constant, FEW_SHOWN)}, and "
        said = (
            f"Values of {named} repeat, and rows with the same one resemble each other: does one "
            f"of them say whose visit a row is? '{best.name}' fits best: "
            f"{also if best.constant else ''}its rows agree in "
            f"{counted(len(best.agreeing), 'column')}."
        )
    else:
        said = (
            f"Values of '{best.name}' repeat, and rows with the same one resemble each other in "
            f"{first_of(best.agreeing, FEW_SHOWN)}: are they visits of one patient?"
        )
    return Suspicion(
        "a column that may say whose visit a row is",
        said,
        f'If so, write kind = "patient" for {"one of them" if others else "the column"}. If no '
        'person has two rows, write rows = "persons" at the top of schema.toml.',
    )


def possible_keys(schema: Schema) -> list[str]:
    """Names of the columns that a draft has no use for, or takes for numbers or many categories."""
    kinds = ("ignore", "discrete", "continuous")
    columns = sorted(schema.columns, key=lambda column: column.kind != "ignore")
    return [
        column.name
        for column in columns
        if column.kind in kinds
        and not column.date
        and (column.kind != "discrete" or len(column.categories) >= FEWEST_KEYS)
    ]


def _is_code(name: str) -> bool:
    """Whether a column is called as codes are, such as those of diagnoses."""
    return _CODES.search(name.lower()) is not None


def _determines(code: IndexArray, groups: IndexArray) -> bool:
    """Whether all rows of a code are of one group, and codes repeat."""
    pairs = np.unique(np.column_stack([code, groups]), axis=0)
    return len(pairs) == len(np.unique(code)) < len(code)


def _groups(source: TableSource, columns: Sequence[str]) -> Mapping[str, IndexArray]:
    """The group of every row by each column, in the order of its values, -1 where missing.

    Columns of words, and of numbers that are not whole, are left out.
    """
    with open_table(source) as table:
        positions = {name: table.names.index(name) for name in columns if name in table.names}
        texts_of: dict[str, dict[str, int]] = {name: {"": -1} for name in positions}
        blocks: dict[str, list[IndexArray]] = {name: [] for name in positions}
        for chunk in table.chunks:
            for name, position in positions.items():
                cells, seen = chunk[position].as_text(), texts_of[name]
                normal = map(normalise_value, cells.texts)
                block = np.array([seen.setdefault(text, len(seen) - 1) for text in normal])
                blocks[name].append(block if cells.index is None else block[cells.index])
    groups = {}
    for name, seen in texts_of.items():
        texts = [*seen][1:]
        parsed = [parse_number(text) for text in texts]
        numbers = [number for number in parsed if number is not None]
        with_digit = sum(any(map(str.isdigit, text)) for text in texts)
        if with_digit < HAVE_DIGITS * len(texts) or not all(map(float.is_integer, numbers)):
            continue
        order = sorted(range(len(texts)), key=lambda at: texts[at])
        if len(numbers) == len(texts):
            order = np.argsort(np.array(numbers), kind="stable").tolist()
        rank = np.append(np.argsort(order), -1).astype(np.int64)
        groups[name] = rank[np.concatenate(blocks[name]).astype(np.int64)]
    return groups


def _standard(values: FloatVector) -> FloatVector:
    spread = np.nanstd(values)
    return (values - np.nanmean(values)) / (spread if spread > 0.0 else 1.0)


def _never_changes(values: FloatVector, groups: IndexArray) -> bool:
    """Whether rows of a group hold one value, but for typing errors."""
    there = ~np.isnan(values) & (groups >= 0)
    size = int(groups.max()) + 1
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, groups[there], values[there])
    np.maximum.at(high, groups[there], values[there])
    several = np.bincount(groups[there], minlength=size) > 1
    return bool((low == high)[several].mean() >= NEARLY_ALL) if several.any() else False


def _agrees(values: FloatVector, groups: IndexArray) -> bool:
    """Whether rows of a group agree beyond chance, and more than those of the next group do.

    A column that drifts with the key, as a date may, also agrees with the next group.
    """
    there = ~np.isnan(values) & (groups >= 0)
    sums = np.bincount(groups[there], values[there])
    squares = np.bincount(groups[there], values[there] ** 2)
    counts = np.bincount(groups[there]).astype(np.float64)
    pairs, next_pairs = (counts * (counts - 1.0)).sum(), (counts[1:] * counts[:-1]).sum()
    if not pairs or not next_pairs:
        return False
    within = (sums**2 - squares).sum() / pairs
    # half the mean squared difference of two rows: of the same group, and of neighbours
    nearer = (counts * squares - sums**2).sum() / pairs
    farther = counts[1:] * squares[:-1] + counts[:-1] * squares[1:] - 2.0 * sums[1:] * sums[:-1]
    agreement = min(within, farther.sum() / (2.0 * next_pairs) - nearer)
    return bool(agreement > max(SERIAL, BEYOND_CHANCE / (pairs / 2.0) ** 0.5))
