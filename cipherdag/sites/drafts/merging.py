"""One schema from the drafts of several sites, and in words what does not fit.

Drafts hold no rows. What sites merely spell differently is mended and said; what people must decide
is said, and its column takes no part until they have.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from cipherdag.errors import SchemaError
from cipherdag.graphs.relations import Relation
from cipherdag.sites.drafts.differences import Difference
from cipherdag.sites.drafts.headers import (
    Header,
    Match,
    in_fahrenheit,
    matches,
    other_units,
    other_words,
)
from cipherdag.sites.drafts.spellings import grouped, quoted, reading_of, shared_categories
from cipherdag.sites.table.column import Column, Listed
from cipherdag.sites.table.file_description import DECLARED
from cipherdag.sites.table.names import is_plain_number, nearest
from cipherdag.sites.table.schema import Schema

Drafts = Mapping[str, Column]
TAKEN_FOR_ONE = "Taken for one;"
EMPTY: Mapping[str, Mapping[str, tuple[float, ...]]] = MappingProxyType({})


def merge_schemas(
    drafts: Mapping[str, Schema],
    quartiles: Mapping[str, Mapping[str, tuple[float, ...]]] = EMPTY,
    *,
    complete: bool = False,
) -> tuple[Schema, tuple[Difference, ...]]:
    """The schema that drafts agree on, and what does not fit; their order does not count.

    Columns whose names mean the same are one; see `headers`.

    Args:
        drafts: By site.
        quartiles: Of the numbers of columns, by site and name, where rows are at hand.
        complete: Whether nothing is said of columns that drafts lack.

    Returns:
        The schema, its columns by code point: one with an open difference is ignored, and says so
        in its comment. The differences, by column.

    Raises:
        SchemaError: No column is left that takes part.
    """
    matched = sorted(matches(headers_of(drafts, quartiles)), key=lambda each: each.name)
    by_site = {
        site: {each.name: _renamed(each, site) for each in matched if site in each.headers}
        for site in sorted(drafts)
    }
    columns, differences = [], []
    for match in matched:
        name = match.name
        held = {site: draft[name] for site, draft in by_site.items() if name in draft}
        lacking = sorted(by_site.keys() - held.keys())
        column, of_column = _merge(name, held)
        of_column = [*_called(match), *(_decisions(match) or of_column)]
        if not complete and column.kind != "ignore" and len(lacking) > len(column.unmeasured_at):
            of_column = [*of_column, _lacking(name, lacking, by_site)]
        differences += of_column
        said = [f"DECIDE: {each.said} {each.remedy}" for each in of_column if each.open]
        column = Column(name, "ignore") if said else column
        said += [] if complete else [f"{each.said} {each.remedy}" for each in _called(match)]
        columns.append(replace(column, comment=" ".join(said)) if said else column)
    if all(column.kind == "ignore" for column in columns):
        lines = "; ".join(f"'{each.column}': {each.said}" for each in differences[:3])
        raise SchemaError(
            f"the drafts agree on no column. {lines}",
            remedy="Correct the drafts until they have a column in common, then merge again.",
        )
    relations, differing = _relations(drafts, matched)
    return Schema(tuple(columns), relations), (*differences, *differing)


def headers_of(
    drafts: Mapping[str, Schema], quartiles: Mapping[str, Mapping[str, tuple[float, ...]]] = EMPTY
) -> dict[str, list[Header]]:
    """The columns of every draft as `headers` compares them, by site in its order."""
    return {
        site: [
            Header(column, quartiles.get(site, {}).get(column.name, ())) for column in draft.columns
        ]
        for site, draft in sorted(drafts.items())
    }


def _renamed(match: Match, site: str) -> Column:
    """The column of a site with the name that it has in the study, and the unit in its name."""
    header = match.headers[site]
    unit = header.said_unit if header.column.kind in ("continuous", "binned") else ""
    unit = "" if header.column.date else unit
    return replace(header.column, name=match.name, unit=unit)


def _called(match: Match) -> list[Difference]:
    """What is said of a column that sites call differently."""
    if not match.renamed:
        return []
    names = ", ".join(f"'{name}' in '{site}'" for site, name in match.renamed.items())
    lines = (f'rename."{name}" = "{match.name}"' for name in dict.fromkeys(match.renamed.values()))
    remedy = f"{TAKEN_FOR_ONE} {', '.join(lines)} {DECLARED} says so."
    return [Difference(match.name, f"{names}: {match.reasons}.", remedy)]


def _decisions(match: Match) -> list[Difference]:
    """What people decide of a column before its drafts are compared: units and spellings."""
    decisions = []
    if factors := other_units(match):
        listed = " and ".join(
            f"multiply.\"{match.name}\" = {factor:g} for '{site}'"
            for site, (factor, _) in factors.items()
        )
        units = {unit for _, unit in factors.values()}
        said = f"the numbers of {quoted(factors)} seem to be in another unit than the others'."
        wanted = f', unit = "{min(units)}"' if len(units) == 1 else ""
        remedy = (
            f'If so, write {listed} {DECLARED}, and kind = "continuous"{wanted} for the column.'
        )
        decisions.append(Difference(match.name, said, remedy, open=True))
    elif sites := in_fahrenheit(match):
        said = f"the numbers of {quoted(sites)} seem to be degrees Fahrenheit, the others' Celsius."
        remedy = (
            "No factor converts these. If so, write (degrees - 32) / 1.8 into the column there, "
            'and kind = "continuous", unit = "celsius" for it.'
        )
        decisions.append(Difference(match.name, said, remedy, open=True))
    for site, meant in other_words(match).items():
        others = [each.column.categories for at, each in match.headers.items() if at != site]
        texts = [*dict.fromkeys(text for each in others for text in each)]
        spelled = {group[0]: [*group[1:]] for group in grouped(texts, {}, reads=reading_of(others))}
        unclear = [text for text in meant if not meant[text]]
        for text in meant.keys() - {*unclear}:
            group = next(each for first, each in spelled.items() if meant[text] in (first, *each))
            group.append(text)
        if len(spelled) > max(map(len, others)):  # nor do the others share all of theirs
            of_one = next(filter(None, others))
            for text in [text for text in spelled if text not in of_one]:
                unclear += [text, *spelled.pop(text)]
        pairs = {first: each for first, each in spelled.items() if each}
        said = f"'{site}' shares no category with the others."
        remedy = f'If they mean the same, write kind = "discrete", categories = {_toml(spelled)}'
        if pairs:
            named = ", ".join(f"{_toml([text])[1:-1]} = {_toml(pairs[text])}" for text in pairs)
            remedy += f" and synonyms = {{ {named} }}"
        more = f", and {quoted(unclear)} under `synonyms` of what each means" if unclear else ""
        remedy += f" for the column{more}."
        decisions.append(Difference(match.name, said, remedy, open=True))
    return decisions


def _toml(texts: Iterable[str]) -> str:
    return json.dumps([*texts], ensure_ascii=False)


def _relations(
    drafts: Mapping[str, Schema], matched: Sequence[Match]
) -> tuple[tuple[Relation[str], ...], list[Difference]]:
    """Relations of every draft that has their columns, and those that only some of these have."""
    names = {
        site: {match.headers[site].name: match.name for match in matched if site in match.headers}
        for site in drafts
    }
    declared: dict[Relation[str], list[str]] = {}
    for site, draft in sorted(drafts.items()):
        for relation in draft.applied:
            columns = tuple(names[site][name] for name in relation.columns)
            declared.setdefault(Relation(relation.form, columns), []).append(site)
    shared, differences = [], []
    for relation, sites in sorted(declared.items(), key=lambda each: each[0].columns):
        able = [
            site
            for site, entry in drafts.items()
            if {*relation.columns} <= {names[site][name] for name in entry.names}
        ]
        if len(sites) == len(able):
            shared.append(relation)
            continue
        said = f"{relation.in_words()} by {quoted(sites)} only."
        differences.append(Difference(relation.columns[0], said, _NOT_EVERYWHERE))
    return tuple(shared), differences


_NOT_EVERYWHERE = (
    "Left out: elsewhere it does not hold, or few rows do not show it. If it is meant to hold, "
    "copy its [[relations]] into the schema."
)


def _lacking(name: str, lacking: list[str], by_site: Mapping[str, Drafts]) -> Difference:
    others = [each for each in by_site[lacking[0]] if any(each not in d for d in by_site.values())]
    near = nearest(name, sorted(others))
    said = f"not in {quoted(lacking)}" + (f", which has '{near}'." if near else ".")
    remedy = f'Write rename."{near}" = "{name}" there in a .toml beside file, and draft from it.'
    if near is None:
        remedy = (
            f'If it has another name there, write rename."THAT NAME" = "{name}" {DECLARED}. If '
            "not, leave it out at all sites, or name these under unmeasured_at in another draft."
        )
    return Difference(name, said, remedy, open=True)


def _merge(name: str, held: Drafts) -> tuple[Column, list[Difference]]:
    """One column of the drafts that have it."""
    kinds = {site: draft.kind for site, draft in held.items()}
    if set(kinds.values()) == {"ignore"}:
        return Column(name, "ignore"), []
    kind, differences = _kind(name, held)
    if any(each.open for each in differences):
        return Column(name, "ignore"), differences
    fields: dict[str, object] = {"kind": kind, "allow_constant": _any(held, "allow_constant")}
    fields["unmeasured_at"] = tuple(site for draft in held.values() for site in draft.unmeasured_at)
    parts: list[Callable[[str, Drafts], tuple[dict[str, object], list[Difference]]]]
    parts = [_units_and_dates, _plausible, _concepts, _labels]
    parts += {"discrete": [_categories], "binned": [_edges]}.get(kind, [])
    for part in parts:
        kind_fields, kind_differences = part(name, held)
        fields |= kind_fields
        differences += kind_differences
    if any(each.open for each in differences):
        return Column(name, "ignore"), differences
    missing = tuple(sorted({text for draft in held.values() for text in draft.missing}))
    both = set(missing) & set(fields.get("categories", ()))  # type: ignore[call-overload]
    if both:
        said = f"'{min(both)}' is a category in one draft and a missing value in another."
        return Column(name, "ignore"), [*differences, Difference(name, said, _DECIDE, open=True)]
    return replace(Column(name, "ignore"), missing=missing, **fields), differences  # type: ignore[arg-type]


_DECIDE = "Decide which, write it in every draft, and merge again."


def _kind(name: str, held: Drafts) -> tuple[str, list[Difference]]:
    kinds = {site: draft.kind for site, draft in held.items()}
    if len(set(kinds.values())) == 1:
        return next(iter(kinds.values())), []
    said = f"{_by_value(kinds)}."
    if "ignore" in kinds.values():
        remedy = (
            "If it was constant at a site, copy the column from the other draft and add "
            "allow_constant = true; if it must not be used, leave it ignored at every site."
        )
        return "ignore", [Difference(name, said, remedy, open=True)]
    few = [draft for draft in held.values() if draft.kind == "discrete"]
    numbers = all(is_plain_number(text) for each in few for text in each.categories)
    if set(kinds.values()) == {"continuous", "discrete"} and numbers:
        remedy = "Taken as continuous: few different numbers look like codes. If they are codes, "
        remedy += "set discrete, with every code, in each draft."
        return "continuous", [Difference(name, said, remedy)]
    return "ignore", [Difference(name, said, _DECIDE, open=True)]


def _units_and_dates(name: str, held: Drafts) -> tuple[dict[str, object], list[Difference]]:
    """Unit and date rule: what a number means."""
    fields: dict[str, object] = {}
    differences = []
    for key in ("unit", "date"):
        given = {site: getattr(draft, key) for site, draft in held.items()}
        values = {value.casefold(): value for value in sorted(given.values()) if value}
        fields[key] = min(values.values(), default="")
        silent = [site for site, value in given.items() if not value]
        if len(values) > 1:
            said = f"{key} is {_by_value({s: v for s, v in given.items() if v})}."
            remedy = "Convert the numbers at one of them, and write the same in every draft."
            differences.append(Difference(name, said, remedy, open=True))
        elif values and silent:
            said = f"{key} '{fields[key]}' is not said in {quoted(silent)}."
            remedy = "Taken for all; ask them." if key == "unit" else "Say it there, too."
            differences.append(Difference(name, said, remedy, open=key == "date"))
    return fields, differences


def _plausible(name: str, held: Drafts) -> tuple[dict[str, object], list[Difference]]:
    ranges = {site: draft.plausible for site, draft in held.items() if draft.plausible}
    if not ranges:
        return {}, []
    low, high = min(each[0] for each in ranges.values()), max(each[1] for each in ranges.values())
    if len(set(ranges.values())) == 1:
        return {"plausible": (low, high)}, []
    said = f"plausible is {_by_value({s: f'{a:g} to {b:g}' for s, (a, b) in ranges.items()})}."
    disjoint = max(each[0] for each in ranges.values()) > min(each[1] for each in ranges.values())
    remedy = (
        "They do not overlap: are these different units?" if disjoint else "The widest is taken."
    )
    return {"plausible": (low, high)}, [Difference(name, said, remedy, open=disjoint)]


def _concepts(name: str, held: Drafts) -> tuple[dict[str, object], list[Difference]]:
    """Codes by vocabulary; two codes of one may be two things."""
    vocabularies = sorted({key for draft in held.values() for key, _ in draft.concepts})
    merged: list[tuple[str, tuple[str, ...]]] = []
    differences = []
    for vocabulary in vocabularies:
        given = {
            site: tuple(sorted(codes))
            for site, draft in held.items()
            for key, codes in draft.concepts
            if key == vocabulary
        }
        merged.append((vocabulary, min(given.values())))
        if len(set(given.values())) > 1:
            listed = {site: " and ".join(codes) for site, codes in given.items()}
            said = f"{vocabulary} is {_by_value(listed)}."
            differences.append(
                Difference(name, said, "Is this one measurement? " + _DECIDE, open=True)
            )
    return {"concepts": tuple(merged)}, differences


def _labels(name: str, held: Drafts) -> tuple[dict[str, object], list[Difference]]:
    labels = {site: "a label" if draft.label else "no label" for site, draft in held.items()}
    if len(set(labels.values())) == 1:
        return {"label": _any(held, "label")}, []
    return {}, [Difference(name, f"{_by_value(labels)}.", _DECIDE, open=True)]


def _edges(name: str, held: Drafts) -> tuple[dict[str, object], list[Difference]]:
    edges = {site: ", ".join(f"{edge:g}" for edge in draft.edges) for site, draft in held.items()}
    first = next(iter(held.values()))
    fields: dict[str, object] = {"edges": first.edges, "ordered": _any(held, "ordered")}
    if len({draft.edges for draft in held.values()}) == 1:
        return fields, []
    return fields, [Difference(name, f"edges are {_by_value(edges)}.", _DECIDE, open=True)]


def _categories(name: str, held: Drafts) -> tuple[dict[str, object], list[Difference]]:
    given = {site: draft.categories for site, draft in held.items()}
    declared: dict[str, str] = {
        text: category
        for draft in held.values()
        for category, texts in draft.synonyms
        for text in texts
    }
    shared = shared_categories(given, declared)
    differences = [Difference(name, said, remedy) for said, remedy in shared.remarks]
    order = _order(held, shared.spelled)
    if order is None:
        said = "its categories are in an order, and not in the same one."
        differences.append(Difference(name, said, _DECIDE, open=True))
    synonyms: Listed = shared.synonyms
    fields: dict[str, object] = {
        "categories": order or shared.categories,
        "ordered": _any(held, "ordered"),
        "synonyms": synonyms,
    }
    return fields, differences


def _order(held: Drafts, spelled: Mapping[str, str]) -> tuple[str, ...] | None:
    """The order that all ordered drafts keep; empty where none is ordered, None if they differ."""
    orders = [
        tuple(dict.fromkeys(spelled[text] for text in draft.categories))
        for draft in held.values()
        if draft.ordered
    ]
    if not orders:
        return ()
    longest = max(orders, key=len)
    whole = set(spelled.values()) == set(longest)
    is_consistent = all(
        tuple(each for each in longest if each in order) == order for order in orders
    )
    return longest if whole and is_consistent else None


def _any(held: Drafts, mark: str) -> bool:
    return any(getattr(draft, mark) for draft in held.values())


def _by_value(values: Mapping[str, str]) -> str:
    """The sites of each value, the most frequent first: "mg/dL in 'a' and 'b', mmol/L in 'c'"."""
    often = Counter(values.values())
    listed = sorted(often, key=lambda value: (-often[value], value))
    return ", ".join(
        f"{value} in {quoted(site for site, each in values.items() if each == value)}"
        for value in listed
    )
