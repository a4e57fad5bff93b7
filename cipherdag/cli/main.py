"""The ``cipherdag`` command: it parses, calls and prints; the work is done elsewhere."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from cipherdag import errors
from cipherdag.cli.audit import audit
from cipherdag.cli.connected import resumable_group
from cipherdag.cli.coordinator import coordinator, site_carry
from cipherdag.cli.decisions import site_approve, site_deny, site_register
from cipherdag.cli.demo import demo
from cipherdag.cli.help import Commands, finish
from cipherdag.cli.in_process import edges, run_command, simulate_command
from cipherdag.cli.knowledge import site_knowledge
from cipherdag.cli.options import EXISTING_FOLDER, FILE, NEW_FILE, OVERWRITE
from cipherdag.cli.parameters import graph_of, other_sets
from cipherdag.cli.programs.mcp_server import mcp
from cipherdag.cli.programs.printed import (
    ShownEdge,
    ShownGraph,
    Written,
    as_json_option,
    failure,
    printed,
)
from cipherdag.cli.repeating import effect, repeat, same_data
from cipherdag.cli.schema import schema
from cipherdag.cli.site import site
from cipherdag.graphs.exports import EXPORTS
from cipherdag.protocol.durable_files import write_whole

MOST_SAID = 20
DIFFERS = ("source", "target", "here", "there")
SMALL_COUNTS = (
    "Sites refuse it where a count of treatment, outcome and what is adjusted for is small, the "
    "likelier the more categories these have. Other sets suffice, too:"
)

if TYPE_CHECKING:
    from cipherdag.findings.graph_finding import AnyGraph, GraphFinding
    from cipherdag.results.run import Run


@click.group(cls=Commands, context_settings={"help_option_names": ["--help"]})
@click.version_option(package_name="cipherdag")
def cli() -> None:
    """Learn causal graphs, effects and survival from data that stay at their sites.

    Exit codes: 0 ok, 1 the run failed, 2 usage, 3 refused for privacy, 4 a site is not ready,
    5 a site does not answer, 6 data do not fit the schema, 130 stopped by Ctrl-C.
    """


for command in (
    resumable_group(
        "run", run_command, "Run an algorithm over several sites' files", takes_files=True
    ),
    resumable_group(
        "simulate",
        simulate_command,
        "Split one file over several sites and run an algorithm",
        takes_files=True,
        connected=False,
    ),
    repeat,
    effect,
    demo,
    schema,
    site,
    coordinator,
    mcp,
    audit,
):
    cli.add_command(command)
for decision in (site_knowledge, site_approve, site_deny, site_register):
    site.add_command(decision)
site.add_command(site_carry)


@cli.command()
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--truth", type=FILE, help="True edges (CSV) to measure a graph against.")
@click.option("--out", type=NEW_FILE, help="File to write; report.html in FOLDER if absent.")
@OVERWRITE
@as_json_option
def report(folder: Path, truth: Path | None, out: Path | None, *, as_json: bool) -> None:
    """Write the report of the result in FOLDER anew, from what was saved."""
    from datetime import UTC, datetime

    from cipherdag.findings.graph import LearntPAG
    from cipherdag.results.run import Run
    from cipherdag.sites.table.schema import Schema

    result = Run.load(folder)
    names, hidden = tuple(result.identifiers), isinstance(result.finding, LearntPAG)
    ignored = Schema.loads(result.schema).ignored if result.schema else ()
    true = edges(truth, names, ignored, unmeasured=hidden) if truth is not None else None
    file = out or folder / "report.html"
    page = result.page(truth=true, written=datetime.now(UTC))
    write_whole(file, page)
    printed(Written(str(file)), [f"Wrote {file}"], as_json=as_json)


@cli.group()
def graph() -> None:
    """Show, compare and export a learnt graph, and ask it what identifies an effect."""


def _learnt(folder: Path) -> Run[GraphFinding[AnyGraph]]:
    """The result that a folder holds, which has to be a learnt graph."""
    from cipherdag.findings.graph_finding import GraphFinding
    from cipherdag.results.run import Run

    return Run.load(folder, GraphFinding)


@graph.command("show")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--svg", type=NEW_FILE, help="Draw into this file instead.")
@click.option("--png", type=NEW_FILE, help="Draw into this file instead.")
@OVERWRITE
@as_json_option
def graph_show(folder: Path, svg: Path | None, png: Path | None, *, as_json: bool) -> None:
    """Print or draw the graph of a result folder."""
    from cipherdag.graphs.exports import export_graph

    finding = _learnt(folder).finding
    drawn = {kind: path for kind, path in (("svg", svg), ("png", png)) if path is not None}
    for kind, path in drawn.items():
        export_graph(finding.graph, kind, path)
    edges = tuple(ShownEdge(each.source, each.mark, each.target) for each in finding.graph.edges)
    lines = [f"Wrote {path}" for path in drawn.values()] or finding.edge_lines
    printed(ShownGraph(edges, tuple(map(str, drawn.values()))), lines, as_json=as_json)


@graph.command("compare")
@click.argument("folder", type=EXISTING_FOLDER)
@click.argument("other", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.option("--html", type=NEW_FILE, help="Write a page on both runs.")
@OVERWRITE
def graph_compare(folder: Path, other: Path, *, as_json: bool, html: Path | None) -> None:
    """Compare a result's graph with another result folder or a CSV of edges."""
    from cipherdag.findings.edge_table import difference_sentences
    from cipherdag.results.compared_page import compared_page

    here = _learnt(folder)
    there = _learnt(other) if other.is_dir() else None
    if html is not None and there is None:
        raise click.UsageError("--html compares two result folders")
    finding = here.finding
    graph = finding.read_graph(other) if there is None else there.finding.graph
    metrics = finding.distance_to(graph)
    if html is not None and there is not None:
        page = compared_page(here, there, (str(folder), str(other)))
        write_whole(html, page)
    rows = finding.differences_to(graph)
    if as_json:
        differences = [dict(zip(DIFFERS, row, strict=False)) for row in rows if not row[-1]]
        click.echo(json.dumps({**asdict(metrics), "differences": differences}))
        return
    samples = (finding.sample, None if there is None else there.finding.sample)
    said = [*difference_sentences(rows, str(folder), str(other), samples)]
    more = [f"and {len(said) - MOST_SAID} more, which --json lists."] if said[MOST_SAID:] else []
    click.echo("\n".join([f"{metrics}  ({finding.compared_as})", *said[:MOST_SAID], *more]))


@graph.command("export")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--format", "kind", type=click.Choice(tuple(EXPORTS)), required=True)
@click.option("--dag", is_flag=True, help="Write a DAG of the class that the graph stands for.")
@click.option("--out", type=NEW_FILE, required=True, help="File to write.")
@OVERWRITE
@as_json_option
def graph_export(folder: Path, kind: str, out: Path, *, dag: bool, as_json: bool) -> None:
    """Write a result's graph in another format."""
    from cipherdag.findings.graph import LearntGraph
    from cipherdag.graphs.exports import export_graph

    finding = _learnt(folder).finding
    graph = finding.dag if dag and isinstance(finding, LearntGraph) else finding.graph
    if dag and not isinstance(finding, LearntGraph):
        raise errors.OutputError(
            f"a {graph.kind.upper()} stands for no single class of DAGs", remedy="Leave --dag out."
        )
    export_graph(graph, kind, out, sample=finding.sample)
    printed(Written(str(out)), [f"Wrote {out}"], as_json=as_json)


@graph.command("identify")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--treatment", required=True, help="The cause.")
@click.option("--outcome", required=True, help="What it may act on.")
@click.option("--unobserved", multiple=True, help="A variable without data; may be repeated.")
@click.option("--linear", is_flag=True, help="All effects are linear: instruments count.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def graph_identify(
    source: Path,
    *,
    treatment: str,
    outcome: str,
    unobserved: tuple[str, ...],
    linear: bool,
    as_json: bool,
) -> None:
    """Say what identifies an effect, from the graph of a result folder or a CSV of edges."""
    from cipherdag.graphs.identification.answers import Identified, PossibleSets

    answer = graph_of(source).identify(treatment, outcome, unobserved=unobserved, linear=linear)
    click.echo(json.dumps(asdict(answer)) if as_json else str(answer))
    estimated = isinstance(answer, PossibleSets) or (
        isinstance(answer, Identified) and answer.method == "adjustment"
    )
    if estimated and not as_json and not unobserved:
        words = ["--graph", str(source), "--treatment", treatment, "--outcome", outcome]
        estimates = f"cipherdag {same_data(source)}"
        click.echo(f"To estimate it: {estimates} {shlex.join(words)}")
        if others := other_sets(answer):
            click.echo(SMALL_COUNTS)
            click.echo("\n".join(f"  {estimates} {options}" for options in others))


finish(cli)


def main() -> None:
    """Entry point: prints failures in four lines and exits with the error's code."""
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.ERROR, stream=sys.stderr)
    logging.getLogger("cipherdag.reading").setLevel(logging.INFO)  # long readings say how far
    logging.getLogger("cipherdag.waiting").setLevel(logging.INFO)
    logging.getLogger("cipherdag.data").setLevel(logging.WARNING)  # what looks like a mistake
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(errors.STOPPED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except errors.CipherdagError as error:
        if "--json" in sys.argv:
            click.echo(msgspec.json.encode(failure(error)).decode(), err=True)
            sys.exit(error.exit_code)
        from cipherdag.cli.terminal import failure_lines

        click.echo("\n".join(failure_lines(error)), err=True)
        sys.exit(error.exit_code)
