"""Site tables from files and DataFrames, all of which lie in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.errors import CohortError, ConstantColumnError, ParameterError, SchemaError
from cipherdag.federation.site import Site
from cipherdag.graphs.relations import LEFT_OUT
from cipherdag.sites.answers.belief_answers import no_interventions
from cipherdag.sites.drafts.inference import Draft, infer_columns
from cipherdag.sites.drafts.left_out import left_out
from cipherdag.sites.drafts.overlap import (
    Lacking,
    declared_lacking,
    lacking_columns,
    overlap_remarks,
    with_large_groups,
    with_overlap,
)
from cipherdag.sites.drafts.related_columns import related_columns
from cipherdag.sites.drafts.suspicions import suspicious_sites
from cipherdag.sites.drafts.table_suspicions import COPIES, same_rows, table_suspicions
from cipherdag.sites.study.study import check_site_name
from cipherdag.sites.table.data_frame import parts_by
from cipherdag.sites.table.names import check_column, normalise_name
from cipherdag.sites.table.reading import open_table
from cipherdag.sites.table.repeated_rows import repeated_rows
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable, load_table

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    Data = IntoFrame | str | Path

log = logging.getLogger("cipherdag.data")

MOST_NAMED = 3  # the most columns, or sites, that a line of the log names


def named_sources(
    data: Mapping[str, Data] | Sequence[Data] | Data, column: str | None = None
) -> Mapping[str, Data]:
    """Sources by site; those of a list are called site-1, site-2 and so on. No file is read yet.

    One frame is divided by the column that says the site. Raises ParameterError where ``data`` is
    one source, not several, or cannot be divided by the column; or no site may have one of the
    names, and CohortError where there is no source.
    """
    if column is not None:
        data = parts_by(data, column)
    if not isinstance(data, Mapping | list | tuple):
        raise ParameterError(
            f"{type(data).__name__} is neither sources by site nor a list of them",
            remedy="Divide one source over sites with Federation.split, or by the column that says "
            "the site with sites='COLUMN'; or give one for each site.",
        )
    if not data:
        raise CohortError("a federation needs at least one site")
    if isinstance(data, Mapping):
        for name in data:
            check_site_name(name)
        return data
    width = len(str(len(data)))
    return {f"site-{number:0{width}d}": source for number, source in enumerate(data, start=1)}


def load_sites(
    data: Mapping[str, Data],
    schema: Schema | str | Path | None,
    labels: Sequence[str],
    interventions: str | None,
    patient: str | None = None,
    *,
    constants: bool = True,
    relations: bool = True,
    min_group_size: int = 0,
    overlapping: bool = False,
) -> dict[str, SiteTable]:
    """Every site's table by one schema, which is inferred if there is none.

    What looks like a mistake is said in the log ``cipherdag.data``. Without a schema a column that
    is constant at every site is left out, and one that is constant or empty at some is kept; both
    are said.

    Labels and the columns of interventions and patients stand in place of the schema's. Without
    ``constants`` constant columns stay, as a table that is still to be divided needs.
    A site may lack what the schema says, or, if ``overlapping``, any column; at least
    ``min_group_size`` sites then have to lack the same ones.

    Raises:
        DataError: Data do not fit the schema.
        SchemaError: Without a schema, a column looks like an identifier or free text.
    """
    for name in _index_names(data.values()):
        log.warning("the index '%s' of a DataFrame is no column; reset_index() makes it one", name)
    drafted, text = schema is None, ""
    if schema is None:
        marks = (interventions, patient)
        resolved = _drafted(data, marks, labels, overlapping=overlapping)
    else:
        resolved = schema if isinstance(schema, Schema) else Schema.load(Path(schema))
        text = text if isinstance(schema, Schema) else Path(schema).read_text("utf-8-sig")
    resolved = resolved.with_patients(patient)
    lacking = lacking_columns(data, resolved) if overlapping else declared_lacking(data, resolved)
    if min_group_size and any(lacking.values()):
        resolved = _overlapping(resolved, lacking, min_group_size)
    resolved = resolved.with_interventions(interventions)
    resolved = resolved.with_labels(labels) if labels else resolved
    for why, names in ({} if drafted else left_out(resolved, text)).items():
        log.warning("%s left out %s", named_together("column", names), why)
    tables = _loaded(data, resolved)
    if drafted and constants:
        tables = without_constants(tables)
    tables = with_relations(tables) if relations else tables
    odd = _suspicions(tables)
    for said in odd:
        log.warning("%s", said)
    if odd and drafted:
        log.warning(
            "to declare what is meant, edit what `cipherdag schema infer` drafts; give it as schema"
        )
    return tables


def _loaded(data: Mapping[str, Data], schema: Schema) -> dict[str, SiteTable]:
    """The tables; where one lacks the column of patients each of its rows counts as a person."""
    lacking: list[str] = []
    if schema.patient is not None:
        for name, source in data.items():
            with open_table(schema.described(source), site=name or None) as table:
                lacking += [name] * (schema.patient.name not in table.names)
    tables = {}
    for name, source in data.items():
        persons = schema
        if name in lacking and len(lacking) < len(data):
            columns = tuple(column for column in schema.columns if column is not schema.patient)
            persons = replace(schema, columns=columns)
        tables[name] = replace(load_table(source, persons, site=name or None), schema=schema)
    if 0 < len(lacking) < len(data):
        where = named_together("site", lacking)
        log.warning("%s: no column says whose its rows are, so that each counts as a person", where)
    return tables


def _index_names(sources: Iterable[Data]) -> list[str]:
    """The names of the DataFrames' indices, each once."""
    indices = (getattr(getattr(source, "index", None), "names", ()) for source in sources)
    return [*dict.fromkeys(str(name) for names in indices for name in names if name is not None)]


def _overlapping(schema: Schema, before: Lacking, fewest: int) -> Schema:
    """The schema that says which sites lack what; the log says what therefore cannot be used."""
    after = with_large_groups(before, fewest)
    declared = with_overlap(schema, after)
    for said in overlap_remarks(declared, before, after):
        log.warning("%s", said)
    return declared


def _drafted(
    data: Mapping[str, Data],
    marks: Sequence[str | None],
    labels: Sequence[str],
    *,
    overlapping: bool,
) -> Schema:
    """A schema from all data together; any column may be constant at a site."""
    *_, patient = named = [normalise_name(each or "") for each in marks]
    draft = infer_columns(data, overlapping=overlapping, patient=patient)
    for mark in filter(None, named):
        check_column(mark, [column.name for column in draft.columns])
    draft = _all_categories(draft) if labels else draft
    unclear = []
    for column in draft.columns:
        if column.kind != "ignore" or column.name in named:
            continue
        if column.name in draft.constant:
            log.warning("column '%s' is left out: it holds one value only, or none", column.name)
        else:
            unclear.append(column)
    if unclear:
        raise SchemaError(
            "without a schema no column is left out that varies; a draft says of the first: "
            f"{unclear[0].comment}",
            column=", ".join(column.name for column in unclear),
            remedy="Draft a schema with `cipherdag schema infer FILE --out schema.toml`, in Python "
            "with `infer_schema`. Read it, and give it with --schema, in Python as schema.",
        )
    if all(column.kind == "ignore" for column in draft.columns):
        raise ConstantColumnError(
            "every column holds one value only, or none", remedy="Give rows in which columns vary."
        )
    columns = tuple(replace(column, allow_constant=True) for column in draft.columns)
    return Schema(columns, sources=draft.written)


def _all_categories(draft: Draft) -> Draft:
    """The draft of a study with labels: all columns are categories where none has many numbers.

    One test then treats them all, as in the paper of FedCMFS; which columns it concerns is said.
    """
    numbers = [column.name for column in draft.columns if column.kind == "continuous"]
    if not numbers or not draft.few.keys() >= {*numbers}:
        return draft
    log.warning(
        "%s: at most 12 different numbers, which are taken as categories like all other columns",
        named_together("column", numbers),
    )
    columns = (
        replace(column, kind="discrete", categories=draft.few[column.name])
        if column.name in draft.few
        else column
        for column in draft.columns
    )
    return replace(draft, columns=tuple(columns))


def with_relations(tables: Mapping[str, SiteTable]) -> dict[str, SiteTable]:
    """The tables with the relations between columns that their rows show; the log says each.

    What the schema declares stays declared.
    """
    schema = next(iter(tables.values())).schema
    relations = related_columns(*tables.values())
    for relation in dict.fromkeys((*schema.applied, *relations)):
        log.warning("%s. %s", relation.in_words(), LEFT_OUT[relation.form])
    extended = replace(schema, relations=tuple(dict.fromkeys((*schema.relations, *relations))))
    return {name: replace(table, schema=extended) for name, table in tables.items()}


def without_constants(tables: Mapping[str, SiteTable]) -> dict[str, SiteTable]:
    """The tables without columns that vary at no site; columns constant at some sites are marked.

    Raises:
        ConstantColumnError: No column would be left.
    """
    schema = next(iter(tables.values())).schema
    varies = np.array([table.varies() for table in tables.values()])
    idle = {
        column.name: [
            site
            for site, varying in zip(tables, varies[:, position], strict=True)
            if not varying and site not in column.unmeasured_at
        ]
        for position, column in enumerate(schema.variables)
    }
    gone = {
        column.name
        for column, any_site in zip(schema.variables, varies.T, strict=True)
        if not any_site.any()
    }
    for name, sites in idle.items():
        if name in gone:
            log.warning("column '%s' is left out: at every site it holds one value only", name)
        elif sites:
            empty = [site for site in sites if not tables[site].has_values(name)]
            for held, holders in (
                ("one value only", [site for site in sites if site not in empty]),
                ("no value", empty),
            ):
                if holders:
                    where = ", ".join(f"'{site}'" for site in holders)
                    log.warning("column '%s' holds %s at %s; it is kept", name, held, where)
    if gone == set(schema.names):
        raise ConstantColumnError(
            "every column holds one value only at every site",
            remedy="Give rows in which columns vary.",
        )
    columns = tuple(
        replace(column, kind="ignore", label=False, unmeasured_at=())
        if column.name in gone
        else replace(column, allow_constant=bool(idle.get(column.name)))
        for column in schema.columns
    )
    reduced = replace(schema, columns=columns)
    return {name: table.narrowed(reduced) for name, table in tables.items()}


def _suspicions(tables: Mapping[str, SiteTable]) -> list[str]:
    """The suspicions about all tables, with the values concerned, which stay in this process.

    One line names all columns and sites with the same suspicion.
    """
    where: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    for site, table in tables.items():
        for column, each in table_suspicions(table):
            said = str(each)
            if each.kind == COPIES:
                rows = repeated_rows(table).rows
                said = f"{rows:,} of {table.rows:,} rows repeat another. {said}"
            where.setdefault((said, bool(column)), []).append((site, column))
    lines = []
    for (text, _), concerned in where.items():
        sites, columns = (
            list(dict.fromkeys(filter(None, names))) for names in zip(*concerned, strict=True)
        )
        of_sites = f"{named_together('site', sites)}{', ' if columns else ': '}" if sites else ""
        of_columns = f"{named_together('column', columns)}: " if columns else ""
        lines.append(f"{of_sites}{of_columns}{text}")
    lines += [f"sites {each}" for each in same_rows([*tables.items()])]
    first = next(iter(tables.values()))
    for position, variable in enumerate(first.schema.variables):
        if variable.kind != "continuous":
            continue
        numbers = {
            site: table.values[:, position]
            for site, table in tables.items()
            if table.values is not None
        }
        lines += [
            f"column '{variable.name}': {suspicion}" for suspicion in suspicious_sites(numbers)
        ]
    return lines


def named_together(kind: str, names: Sequence[str]) -> str:
    """Names of one kind, of many the first three: "columns 'a', 'b', 'c' and 5 more"."""
    shown = [repr(name) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        shown.append(f"{len(names) - MOST_NAMED} more")
    listed = " and ".join([", ".join(shown[:-1]), shown[-1]]) if shown[1:] else shown[0]
    return f"{kind}{'s' if len(names) > 1 else ''} {listed}"


def check_required_columns(algorithm: Algorithm[Any, Any], sites: Sequence[Site]) -> None:
    """Refuse sites without what the algorithm reads.

    Raises:
        ParameterError: The algorithm names a column that is left out.
        ConstantColumnError: It reads labels, and a label is constant at a site or a feature at
            every site, unless the schema allows it.
        SchemaError: It reads interventions, and no row of any site names one.
    """
    for name in algorithm.columns:
        if name in sites[0].table.schema.ignored:
            raise ParameterError(
                f"column '{name}' takes no part: it holds one value only, or the schema ignores it",
                remedy="Give a schema that names both categories of the column, or calls it "
                "continuous, with allow_constant = true.",
            )
    if "labels" in algorithm.reads:
        _check_labels(sites)
    marks = [site.table.interventions for site in sites]
    intervened = any(site_marks is not None and site_marks.any() for site_marks in marks)
    if "interventions" in algorithm.reads and not intervened:
        raise no_interventions(
            f"{algorithm.title} needs rows of known interventions, and no row of any site names one"
        )


def _check_labels(sites: Sequence[Site]) -> None:
    """Refuse constant labels, and features that are constant everywhere."""
    variables = sites[0].table.schema.variables
    varies = [site.table.varies() for site in sites]
    for position, column in enumerate(variables):
        idle = [s.name for s, varying in zip(sites, varies, strict=True) if not varying[position]]
        if not idle or column.allow_constant:
            continue
        if column.label:
            raise ConstantColumnError(
                "the label holds one value only", column=column.name, site=idle[0]
            )
        if len(idle) == len(sites):
            raise ConstantColumnError(
                "the feature holds one value only at every site", column=column.name
            )
