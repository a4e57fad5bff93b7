"""``schema``: draft a schema at a site, and agree on one without showing data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cipherdag import errors
from cipherdag.cli.help import Commands
from cipherdag.cli.options import FILE, NEW_FILE, OVERWRITE, source_files
from cipherdag.cli.programs.printed import Drafted, Previewed, as_json_option, printed
from cipherdag.protocol.durable_files import OPEN, write_whole

if TYPE_CHECKING:
    from cipherdag.sites.drafts.differences import Difference
    from cipherdag.sites.table.schema import Schema

OUT = click.option("--out", type=NEW_FILE, help="File to write instead of printing.")


@click.group(cls=Commands)
def schema() -> None:
    """Describe the columns of a study, and agree on them without showing data."""


@schema.command(
    "infer",
    params=[source_files(required=False)],
    short_help="Draft a commented schema.toml from files.",
)
@OUT
@OVERWRITE
@click.option("--min-cell-size", type=click.IntRange(min=0), default=5, show_default=True)
@click.option(
    "--declared",
    "documents",
    type=FILE,
    multiple=True,
    help="REDCap's data dictionary, or a SQL-on-FHIR view (.json): what it says of columns holds.",
)
@as_json_option
def schema_infer(
    files: list[Path],
    out: Path | None,
    min_cell_size: int,
    documents: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Write a commented schema.toml for you to read and edit: one for all FILES together.

    FILES are one source per site, or a folder of them. Behind LOOK: stands what a person should
    look at, such as a column that some files lack; columns that files call differently are matched,
    and what people must decide is marked DECIDE. The draft may leave: it holds no date,
    identifier or free text, and no category of less than --min-cell-size rows; 0 withholds nothing.
    With --declared no FILES are needed.
    """
    from cipherdag.sites.drafts.together import draft_files, read_declarations
    from cipherdag.sites.drafts.withholding import content

    declared = read_declarations(documents)
    if not files and not declared:
        raise click.UsageError("Missing argument 'FILES...', or option '--declared'.")
    draft, differences, table = draft_files(files, min_cell_size, declared)
    held = content(draft.columns, min_cell_size, declared.columns)
    said = [*table, *map(str, differences), *held]
    if undecided := sorted({each.column for each in differences if each.open}):
        said.append(f"Ignored until you do what stands behind DECIDE: {', '.join(undecided)}.")
    write(draft, out, said, as_json=as_json)


@schema.command("preview")
@click.argument("file", type=FILE)
@as_json_option
def schema_preview(file: Path, *, as_json: bool) -> None:
    """Count at the site what its OMOP database has for each column of a study.

    FILE is the .toml with the database's address and omop = "study.toml". Nothing is written, and
    the counts are the site's alone.
    """
    from cipherdag.sites.table.reading import omop_preview

    counts = omop_preview(file)
    lines = [f"{counts[0].rows} rows, and for each column:"]
    for each in counts:
        lines.append(f"  {each.column}: {each.filled} rows have it, by {each.records} records")
        if each.in_unit < each.records:
            lost = each.records - each.in_unit
            lines.append(f"    {lost} of these have no number in the column's unit")
        if not each.filled:
            lines.append("    LOOK: are concepts, unit and days right, and is it recorded here?")
    value = Previewed([each._asdict() for each in counts])
    printed(value, lines, as_json=as_json)


@schema.command("merge")
@click.argument("drafts", nargs=-1, required=True, type=FILE)
@OUT
@OVERWRITE
@as_json_option
def schema_merge(drafts: tuple[Path, ...], out: Path | None, *, as_json: bool) -> None:
    """Make one schema of the sites' DRAFTS, and say what does not fit.

    Spellings of one category become synonyms. Where people must decide, the column is ignored until
    they have, and the exit code is 6.
    """
    from cipherdag.sites.drafts.merging import merge_schemas

    merged, differences = merge_schemas(_loaded(drafts))
    write(merged, out, [*map(str, differences)], as_json=as_json)
    undecided = sorted({each.column for each in differences if each.open})
    if undecided:
        raise errors.SchemaMismatchError(
            f"to be decided: {', '.join(undecided)}",
            remedy="Do what stands behind DECIDE in the drafts concerned, then merge again.",
        )


@schema.command("diff")
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def schema_diff(first: Path, second: Path, *, as_json: bool) -> None:
    """Say in what two schemas or drafts differ. Exit code 0 where sites with them can run together.

    Missing values, synonyms, plausible numbers and concept codes may differ between sites. The
    order of categories may not: a run numbers them by it.
    """
    from cipherdag.sites.drafts.differences import unlike_columns
    from cipherdag.sites.drafts.merging import merge_schemas
    from cipherdag.sites.table.schema import Schema

    one, two = Schema.load(first), Schema.load(second)
    try:
        differences: list[Difference] = [*merge_schemas(_loaded((first, second)))[1]]
    except errors.SchemaError as error:
        raise errors.SchemaMismatchError(error.message, remedy=error.remedy) from error
    said = {each.column for each in differences}
    differences += unlike_columns((str(first), one), (str(second), two), said)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in differences], indent=2))
    elif differences:
        click.echo("\n".join(map(str, differences)))
    if one.canonical() != two.canonical():
        raise errors.SchemaMismatchError(
            f"{first} and {second} are not the same schema",
            remedy=f"Run `cipherdag schema merge {first} {second} --out schema.toml`.",
        )
    if not as_json:
        click.echo("Sites with these two can run together.")


@schema.command("overlap")
@click.argument("file", metavar="SCHEMA", type=FILE)
@click.option("--sites", required=True, help="All sites of the study, separated by commas.")
@click.option("--min-sites", type=click.IntRange(min=3), default=3, show_default=True)
@OUT
@OVERWRITE
@as_json_option
def schema_overlap(
    file: Path, sites: str, min_sites: int, out: Path | None, *, as_json: bool
) -> None:
    """Say what sites that measured different columns can use, and what the coordinator needs.

    At least --min-sites sites have to lack the same columns, by `unmeasured_at`. Where they are
    fewer, it joins the two most similar groups, which then lack the columns of both, and writes
    the schema that says so.
    """
    from cipherdag.sites.drafts.overlap import (
        declared_lacking,
        overlap_remarks,
        with_large_groups,
        with_overlap,
    )
    from cipherdag.sites.table.schema import Schema

    declared, names = Schema.load(file), [each.strip() for each in sites.split(",") if each.strip()]
    strangers = sorted({*declared.lacking} - {*names})
    if strangers:
        raise errors.ParameterError(
            f"--sites lacks '{strangers[0]}', which {file} says did not measure some columns",
            remedy="Name every site of the study behind --sites.",
        )
    before = declared_lacking(names, declared)
    after = with_large_groups(before, min_sites)
    made = with_overlap(declared, after)
    remarks = list(overlap_remarks(made, before, after))
    needed = [
        f"--lacking {name}={','.join(str(v + 1) for v in made.unmeasured_at(name))}"
        for name in names
        if made.unmeasured_at(name)
    ]
    said = [*remarks, f"The coordinator needs: {' '.join(needed) or 'nothing'}"]
    write(made, out, said, as_json=as_json)


def write(made: Schema, out: Path | None, said: Sequence[str] = (), *, as_json: bool) -> None:
    """Print a schema and what is said of it, or write it into a file."""
    text = made.dumps()
    if said and not as_json:
        click.echo("\n".join(said), err=out is None)
    if out is not None:
        write_whole(out, text, mode=OPEN)
    hello = f"Wrote {out}. Read it before use: every site needs the same one."
    lines = [text.removesuffix("\n") if out is None else hello]
    value = Drafted(text, tuple(said), None if out is None else str(out))
    printed(value, lines, as_json=as_json)


def _loaded(files: Sequence[Path]) -> dict[str, Schema]:
    from cipherdag.sites.table.schema import Schema

    stems = [file.stem for file in files]
    names = stems if len(set(stems)) == len(stems) else [str(file) for file in files]
    return {name: Schema.load(file) for name, file in zip(names, files, strict=True)}
