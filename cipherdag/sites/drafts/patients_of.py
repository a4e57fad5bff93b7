"""How many patients hold each category, where a column says, or seems to say, whose a row is.

Five visits of one patient are one person. A column says it by a document, by its name, or since
rows of one value resemble each other; of several the one counts by which fewest patients hold it.

Leaks:
    Nothing: the numbers decide which categories a draft withholds.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from cipherdag.sites.drafts.identifiers import names_patients
from cipherdag.sites.drafts.repeated_keys import key_question, possible_keys
from cipherdag.sites.drafts.table_suspicions import readable_tables
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.column import NO_VARIABLE, Column
from cipherdag.sites.table.names import normalise_value, truth_value
from cipherdag.sites.table.reading import TableSource, open_table
from cipherdag.sites.table.schema import Schema

Holders = dict[tuple[str, str], set[object]]
"""Whose rows hold a category, by column and category."""


def by_patients(
    sources: Sequence[TableSource],
    columns: Sequence[Column],
    tallies: Mapping[str, ColumnTally],
    fewest: int,
) -> dict[str, Counter[str]]:
    """How many hold each value of some columns: patients where these may be fewer than ``fewest``.

    Args:
        sources: The tables.
        columns: Their columns, as all values can be read by them.
        tallies: How many rows hold each value.
        fewest: Patients that have to hold a category; none is counted for 0.
    """
    counted = [each.name for each in columns if each.categories and fewest]
    listed = {name: tallies[name].values() for name in counted}
    keys_of = [_keys(source, columns, tallies) if listed else () for source in sources]
    visits = [tallies[key].values() for key in set[str]().union(*keys_of)]
    if not visits:
        return {}
    most = max(n for each in visits for text, n in each.items() if text)
    surely = fewest * most + max(each[""] for each in visits)
    rare = {n: {text for text in each if each[text] < surely} for n, each in listed.items()}
    whole: Holders = {(name, text): set() for name, texts in rare.items() for text in texts}
    for number, (source, keys) in enumerate(zip(sources, keys_of, strict=True)):
        by_key = _holders(source, keys, rare, number)
        for category in whole:
            whole[category] |= min((each.get(category, set()) for each in by_key), key=len)
    return {
        name: Counter({t: len(whole[name, t]) if t in rare[name] else n for t, n in each.items()})
        for name, each in listed.items()
    }


def _keys(
    source: TableSource, columns: Sequence[Column], tallies: Mapping[str, ColumnTally]
) -> tuple[str, ...]:
    """The columns of a table that say, or may say, whose a row is."""
    with open_table(source) as table:
        here = [column for column in columns if column.name in table.names]
    named = [
        each.name
        for each in here
        if each.kind == "patient" or (names_patients(each.name) and _repeats(tallies[each.name]))
    ]
    if all(each.kind in NO_VARIABLE for each in here):
        return tuple(named)
    schema = Schema(tuple(here))
    tables, *_ = readable_tables(schema, here, [source])
    asked = key_question(source, tables[0], possible_keys(schema)) if tables else None
    return tuple(dict.fromkeys((*named, *(asked[0] if asked else ()))))


def _repeats(tally: ColumnTally) -> bool:
    """Whether a column has several values, no words for yes and no, and one of them twice."""
    rows = {text: n for text, n in tally.values().items() if text}
    return len(rows) > 1 and max(rows.values()) > 1 and None in map(truth_value, rows)


def _holders(
    source: TableSource,
    keys: Sequence[str],
    rare: Mapping[str, Collection[str]],
    number: int,
) -> list[Holders]:
    """Whose rows of a table hold rare categories, for each key; without one each row is a person.

    A row whose key is empty counts for nobody.
    """
    by_key: list[Holders] = [{} for _ in keys or ("",)]
    row = 0
    with open_table(source) as table:
        columns_of = {name: table.names.index(name) for name in rare if name in table.names}
        for chunk in table.chunks:
            whose = [chunk[table.names.index(key)].as_text() for key in keys]
            for name, position in columns_of.items():
                cells = chunk[position].as_text()
                texts = [*map(normalise_value, cells.notation.categories(cells.texts))]
                for at in range(len(cells)):
                    text = texts[at if cells.index is None else cells.index[at]]
                    if text not in rare[name]:
                        continue
                    if not keys:
                        by_key[0].setdefault((name, text), set()).add((number, row + at))
                    for holders, key, each in zip(by_key, keys, whose, strict=False):
                        if person := normalise_value(each.at(at)):
                            holders.setdefault((name, text), set()).add((key, person))
            row += len(chunk[0])
    return by_key
