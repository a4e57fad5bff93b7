"""What a column most likely is, from its values and what a database declares: the draft's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from cipherdag.errors import SchemaError
from cipherdag.sites.table.cells import ColumnType
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import is_other_number
from cipherdag.sites.table.names import is_integer_text, is_plain_number, normalise_value

FEW_VALUES = 12
_MOST_TEXTS = 100
_FEWEST_ROWS_PER_TEXT = 10
_IDENTIFIER = ' No two rows agree: if this is an identifier, set kind = "ignore".'
_MOSTLY = 0.8
_MISSING_WORDS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "?", "."})


def guessed(name: str, counter: Counter[str], rows: int, declared: ColumnType | None) -> Column:
    """The column that values stand for; see `cipherdag.sites.drafts.inference.infer_columns`."""
    values = counter.copy()
    gap = "Some values are missing. " if values.pop("", 0) else ""
    words = missing_words(values)
    others = [value for value in values if value not in words]
    if len(values) <= 1:
        held = "one value only" if values else "no value"
        note = f"{gap}Ignored: the column holds {held}, which carries no information."
        return Column(name, "ignore", comment=note)
    if declared is not None and (declared.kind != "number" or all(map(is_plain_number, values))):
        return _guess_declared(name, declared, sorted(values), gap, rows)
    if others and all(map(is_plain_number, others)):
        marked = f"{_listed(words)} is taken as missing. " if words else ""
        return _guess_numbers(name, others, tuple(words), gap + marked, unique=len(others) == rows)
    if _mostly_numbers(values, others):
        return Column(name, "continuous", missing=tuple(words), comment=f"{gap}Numbers.")
    return _guess_texts(name, sorted(values), gap, rows)


def missing_words(values: Iterable[str]) -> list[str]:
    """The words among values that are taken as missing where numbers stand."""
    return sorted(value for value in values if value.lower() in _MISSING_WORDS)


def _mostly_numbers(values: Counter[str], others: Sequence[str]) -> bool:
    """Whether many different numbers, of whatever notation, leave little room for other cells."""
    numbers = [own for own in others if is_plain_number(own) or is_other_number(own)]
    rows = sum(values[own] for own in others)
    told = sum(values[own] for own in numbers)
    return len(numbers) > FEW_VALUES and told >= _MOSTLY * rows


def _guess_declared(
    name: str, declared: ColumnType, values: list[str], note: str, rows: int
) -> Column:
    """The column that a database's own type stands for; ``values`` has at least two."""
    if declared.ordered:
        return _in_order(name, declared, values, note)
    note = f"{note}{declared.name} in the database."
    if declared.kind == "number":
        if len(values) <= FEW_VALUES and all(map(is_integer_text, values)):
            codes = ", ".join(f'"{value}"' for value in sorted(values, key=int))
            note += f' If it holds codes, set kind = "discrete" and categories = [{codes}].'
        elif len(values) == rows and all(map(is_integer_text, values)):
            note += _IDENTIFIER
        return Column(name, "continuous", comment=note)
    if declared.kind == "text":
        return _guess_texts(name, values, note + " ", rows)
    if declared.kind in ("boolean", "enum"):
        listed = tuple(map(normalise_value, declared.values))
        categories = (*listed, *(value for value in values if value not in listed))
        if declared.kind == "enum":
            note += " If the order of `categories` means something, set ordered = true."
        return Column(name, "discrete", categories=categories, comment=note)
    note += " Ignored: neither a number nor a category; no value of it is written."
    return Column(name, "ignore", comment=note)


def _in_order(name: str, declared: ColumnType, values: list[str], note: str) -> Column:
    listed = tuple(map(normalise_value, declared.values))
    others = [value for value in values if value not in listed]
    if others:
        raise SchemaError(
            f"{len(others)} values, such as '{others[0]}', have no place in the order that another "
            "table gives the categories",
            column=name,
            remedy="Give the column the same ordered categories in every table.",
        )
    note = f"{note}{declared.name}: `categories` are in its order."
    return Column(name, "discrete", categories=listed, ordered=True, comment=note)


def _guess_numbers(
    name: str, numbers: list[str], missing: tuple[str, ...], note: str, *, unique: bool
) -> Column:
    whole = all(map(is_integer_text, numbers))
    if len(set(map(float, numbers))) == 1:
        note += "Ignored: the column holds one value only, which carries no information."
        return Column(name, "ignore", missing=missing, comment=note)
    if not whole or len(numbers) > FEW_VALUES:
        return many_numbers(name, missing, note, whole=whole, unique=unique)
    note += f"At most {FEW_VALUES} different whole numbers."
    categories = tuple(sorted(numbers, key=int))
    return Column(name, "discrete", categories=categories, missing=missing, comment=note)


def many_numbers(
    name: str, missing: tuple[str, ...], note: str, *, whole: bool, unique: bool
) -> Column:
    """Numbers that are no categories, whole or not, no two rows alike or some."""
    if not whole:
        note += "Numbers."
    else:
        note += f"Whole numbers, more than {FEW_VALUES} different ones."
        note += _IDENTIFIER if unique else ""
    return Column(name, "continuous", missing=missing, comment=note)


def is_free_text(texts: Collection[str], rows: int) -> bool:
    """Whether texts look like identifiers or free text: too many, or few rows for each."""
    rare = len(texts) > FEW_VALUES and rows < _FEWEST_ROWS_PER_TEXT * len(texts)
    return rare or len(texts) > _MOST_TEXTS


def _guess_texts(name: str, texts: list[str], note: str, rows: int) -> Column:
    if is_free_text(texts, rows):
        note += "Ignored: this looks like an identifier or free text; no value of it is written."
        return Column(name, "ignore", comment=note)
    return Column(name, "discrete", categories=tuple(texts), comment=f"{note}Text.")


def _listed(words: Sequence[str]) -> str:
    return " or ".join(f"'{word}'" for word in words)
