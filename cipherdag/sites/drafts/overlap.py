"""Sites that measured different variables: which lack what, and which have to lack more.

Sums over different sites are told apart by subtraction. So sites are put in groups that lack the
same variables, each of as many sites as a sum has to cover; what one site of a group lacks, none of
it uses (docs/adr/0027).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from cipherdag.pages.numerals import first_of
from cipherdag.questions.presence import Measured
from cipherdag.sites.table.reading import TableSource, open_table
from cipherdag.sites.table.schema import Schema

Lacking = Mapping[str, frozenset[str]]
"""For every site the names of the variables that it lacks."""


def declared_lacking(sites: Iterable[str], schema: Schema) -> dict[str, frozenset[str]]:
    """The variables that every site did not measure by the schema."""
    return {site: frozenset(schema.names[v] for v in schema.unmeasured_at(site)) for site in sites}


def lacking_columns(data: Mapping[str, TableSource], schema: Schema) -> dict[str, frozenset[str]]:
    """The variables that every site's file lacks, or that the schema says it did not measure."""
    lacking = declared_lacking(data, schema)
    for site, source in data.items():
        with open_table(schema.described(source), site=site) as table:
            lacking[site] |= {*schema.names} - {*table.names}
    return lacking


def with_large_groups(lacking: Lacking, fewest: int) -> dict[str, frozenset[str]]:
    """Extend what sites lack until every group of sites that lack the same is large enough.

    The smallest group joins the one with which the fewest columns of sites are given up, until none
    is too small; the order of the sites is nothing to it.
    """
    groups: dict[frozenset[str], int] = {}
    for variables in lacking.values():
        groups[variables] = groups.get(variables, 0) + 1

    def given_up(one: frozenset[str], other: frozenset[str]) -> int:
        return groups[one] * len(other - one) + groups[other] * len(one - other)

    joined = dict(lacking)
    while len(groups) > 1 and min(groups.values()) < fewest:
        small = min(groups, key=lambda each: (groups[each], sorted(each)))
        others = [group for group in groups if group != small]
        partner = min(others, key=lambda each: (given_up(small, each), sorted(each)))
        both = small | partner
        groups[both] = groups.get(both, 0) + sum(
            groups.pop(each) for each in {small, partner} - {both}
        )
        joined = {site: both if each in (small, partner) else each for site, each in joined.items()}
    return joined


def with_overlap(schema: Schema, lacking: Lacking) -> Schema:
    """The schema that declares what sites lack; raises SchemaError where nothing is left."""
    columns = []
    for column in schema.columns:
        sites = tuple(site for site, names in lacking.items() if column.name in names)
        whole = len(sites) == len(lacking) and column.name in schema.names
        if whole:
            columns.append(replace(column, kind="ignore", label=False, unmeasured_at=()))
        else:
            columns.append(replace(column, unmeasured_at=sites) if sites else column)
    return replace(schema, columns=tuple(columns))


def overlap_remarks(schema: Schema, before: Lacking, after: Lacking) -> Iterator[str]:
    """The sentences on what a run over a schema of `with_overlap` cannot use or disclose."""
    for name in sorted(set.union(*map(set, after.values())) if after else ()):
        gave_up = [f"'{site}'" for site, each in after.items() if name in each - before[site]]
        if name not in schema.names:
            yield f"column '{name}' is left out: too few sites that lack the same others have it"
        elif gave_up:
            where = ", ".join(gave_up)
            yield (
                f"column '{name}' of {where} is not used: its sums would tell of too few sites, "
                "since others that are like them otherwise lack it"
            )
    lacking = Measured(tuple(schema.unmeasured_at(site) for site in after))
    never = lacking.never(np.triu(np.ones((len(schema.names),) * 2, dtype=bool), k=1))
    pairs = [f"{schema.names[x]} and {schema.names[y]}" for x, y in np.argwhere(never)]
    if pairs:
        yield (
            "no site measured both of these columns, so that no test can take the edge between "
            f"them away: {first_of(pairs, between='; ')}"
        )
