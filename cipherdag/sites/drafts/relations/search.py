"""Which columns of a site are functions of others: what a person looks at, and a schema declares.

Copies, a code and its name, a category and its dummies, categories that are made of finer ones or
cut from numbers, one-hot sets, and numbers with a constant sum or product, rounded ones among them.

Leaks:
    Nothing leaves the site. A relation names columns, and no value and no number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cipherdag.graphs.relations import Relation
from cipherdag.sites.drafts.relations.columns import (
    ColumnValues,
    Step,
    column_values,
    comparable,
    is_function,
    joint_steps,
    steps,
)
from cipherdag.sites.drafts.relations.sums import constant_sums
from cipherdag.sites.table.site_table import SiteTable

FEWEST_DUMMIES = 2
NEARLY = 0.1
"""Standard deviations by which a number that follows from others may differ, as rounding does."""


def related_columns(*tables: SiteTable) -> tuple[Relation[str], ...]:
    """Relations that hold in every row of tables of one schema, beyond chance.

    What holds in all rows of several sites together holds at each of them.
    """
    columns = column_values(tables)
    determined = steps(columns)
    leader = _leaders(len(columns), determined)
    leaders = [v for v, entry in enumerate(leader) if entry == v]
    relations = [
        _relation("coded", columns, (leader[v], v)) for v in range(len(columns)) if leader[v] != v
    ]
    direct = _direct({(leader[a], leader[b]) for a, b in determined if leader[a] != leader[b]})
    for v in leaders:
        dummies = [b for a, b in sorted(direct) if a == v and columns[b].two_valued]
        if len(dummies) >= FEWEST_DUMMIES and _together(columns, dummies, v):
            relations.append(_relation("coded", columns, (v, *dummies)))
            direct -= {(v, b) for b in dummies}
    relations += [_relation("function", columns, (b, a)) for a, b in direct]
    sums = list(constant_sums([columns[v] for v in leaders]))
    summed = {name for relation in sums for name in relation.columns}
    alone = [columns[v] for v in leaders]
    relations += [
        _relation("function", alone, (then, a, b))
        for a, b, then in joint_steps(alone, steps(alone))
        if not {alone[v].name for v in (a, b, then)} <= summed
    ]
    relations += sums
    return tuple(sorted(set(relations), key=lambda entry: (entry.form, entry.columns)))


def contradicted(relation: Relation[str], table: SiteTable) -> bool:
    """True if rows of a table contradict a relation; few rows may be inconclusive."""
    held = {column.name: column for column in column_values([table])}
    for target, by in relation.rules:
        columns = [held[name] for name in by if name in held]
        entry = held.get(target)
        if entry is None:
            continue  # of one value: it follows from anything
        given = np.column_stack([np.zeros(table.rows), *map(comparable, columns)])
        there = ~np.isnan(np.column_stack([given, comparable(entry)])).any(axis=1)
        groups = np.unique(given[there], axis=0, return_inverse=True)[1].reshape(-1)
        values = comparable(entry)[there]
        low, high = np.full(len(values), np.inf), np.full(len(values), -np.inf)
        np.minimum.at(low, groups, values)
        np.maximum.at(high, groups, values)
        spread = (high - low)[np.unique(groups)]
        if (spread > NEARLY * max(float(values.std()), 0.0)).any():
            return True
    return False


def _relation(form: str, columns: Sequence[ColumnValues], which: Sequence[int]) -> Relation[str]:
    return Relation(form, tuple(columns[v].name for v in which))  # type: ignore[arg-type]


def _leaders(count: int, determined: set[Step]) -> list[int]:
    """The first of the columns that each is a copy of, itself where it is none."""
    leader = list(range(count))
    for a, b in sorted(determined):
        if a < b and (b, a) in determined:
            leader[b] = min(leader[b], leader[a])
    return leader


def _direct(determined: set[Step]) -> set[Step]:
    """The steps but those that follow from two others."""
    after: dict[int, set[int]] = {}
    for a, b in determined:
        after.setdefault(a, set()).add(b)
    return {
        (a, b) for a, b in determined if not any(b in after.get(c, ()) for c in after[a] if c != b)
    }


def _together(columns: Sequence[ColumnValues], dummies: Sequence[int], whole: int) -> bool:
    """True if a category is determined by its dummy variables together."""
    entry = columns[whole].codes
    codes = [columns[v].codes for v in dummies]
    if entry is None or any(each is None for each in codes):
        return False
    stacked = np.column_stack([entry, *codes])  # type: ignore[list-item]
    stacked = stacked[(stacked >= 0).all(axis=1)]
    joint = np.unique(stacked[:, 1:], axis=0, return_inverse=True)[1].reshape(-1)
    return is_function(joint, stacked[:, 0])
