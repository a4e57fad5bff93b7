"""The commands of Fed-CD: ``run fedcd`` and ``simulate fedcd``, and the options of all its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.cli.in_process import execute, from_files, from_one_file
from cipherdag.cli.options import FILE, shared_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


FEDCD_PARAMETERS = (
    "aggregation", "reference", "method", "rounds", "epochs", "fit_steps", "graph_steps", "batch",
    "graphs", "hidden", "sparsity", "prior_weight", "start", "sharpness", "full_mass", "reach",
    "consensus",
)  # fmt: skip


def _choice(name: str, values: tuple[str, ...], text: str) -> Callable[[Any], Any]:
    kind = click.Choice(list(values))
    return click.option(f"--{name}", type=kind, default=values[0], show_default=True, help=text)


def _number(name: str, own: float, text: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", type=type(own), default=own, show_default=True, help=text)


# the defaults of FedCD, written out so that --help need not import it
OPTIONS = [
    _choice("aggregation", ("proximity", "naive"), "How the sites' beliefs are averaged."),
    _choice("reference", ("paper", "code"), "Follow the paper, or its published program."),
    _choice("method", ("enco", "sdi"), "What each site learns with."),
    _number("rounds", 10, "Most federated rounds."),
    _number("epochs", 2, "Epochs of a site in each round."),
    _number("fit-steps", 1000, "Steps of distribution fitting in an epoch."),
    _number("graph-steps", 100, "Steps of graph fitting in an epoch."),
    _number("batch", 128, "Rows in a step."),
    _number("graphs", 100, "Graphs drawn in a step of graph fitting."),
    _number("hidden", 64, "Width of the networks."),
    _number("sparsity", 0.004, "Price of an edge."),
    _number("prior-weight", 0.001, "Weight of the last aggregated belief in training."),
    _choice("start", ("expected", "sampled"), "Start from the last belief, or a draw of it."),
    _number("sharpness", 2.0, "Temperature of the proximity weights, beta."),
    _number("full-mass", 100, "Rows of an intervention that count in full."),
    _choice("reach", ("ends", "tails", "edges"), "Pairs that an intervention tells about."),
    _number("consensus", 0.0, "Stop at this average edge entropy, in bits."),
]

fedcd_options = shared_options(
    [
        click.option("--interventions", default="", help="Column that names interventions."),
        *OPTIONS,
        click.option("--truth", type=FILE, help="True edges (CSV) to measure the graph against."),
    ],
    conditioning=False,
)


@click.command("fedcd")
@click.argument("files", nargs=-1, required=True, type=FILE)
@fedcd_options
def run_fedcd(files: tuple[Path, ...], **options: Any) -> None:
    """Fed-CD over one file per site: CSV, Parquet, DuckDB, or a .toml that names a database."""
    federation, source = from_files(files, options, interventions=_interventions(options))
    execute(federation, "fedcd", FEDCD_PARAMETERS, source, options)


@click.command("fedcd")
@click.argument("data", type=FILE)
@click.option("--sites", type=click.IntRange(min=1), default=3, show_default=True, help="Sites.")
@click.option(
    "--deal",
    type=click.Choice(["horizontal", "vertical", "uneven"]),
    default="vertical",
    show_default=True,
    help="Divide every regime of interventions over the sites, or deal out whole ones.",
)
@fedcd_options
def simulate_fedcd(data: Path, sites: int, deal: str, **options: Any) -> None:
    """Fed-CD over the parts of one file, dealt out by the seed."""
    own = {"interventions": _interventions(options), "deal": deal}
    federation, source = from_one_file(data, sites, options, **own)
    execute(federation, "fedcd", FEDCD_PARAMETERS, source | {"deal": deal}, options)


def _interventions(options: Mapping[str, Any]) -> str | None:
    return options.get("interventions") or None
