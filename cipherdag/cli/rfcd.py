"""The commands of RFcd: ``run rfcd``, ``simulate rfcd`` and ``coordinator run rfcd``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.cli.in_process import execute, from_files, from_one_file
from cipherdag.cli.options import FILE, shared_options

if TYPE_CHECKING:
    from pathlib import Path


RFCD_PARAMETERS = ("score", "learner", "objective", "search", "beam", "grid_bits", "noise")

own_options = [
    click.option(
        "--score",
        type=click.Choice(["bic", "mdl"]),
        default="bic",
        show_default=True,
        help="bic: linear Gaussian, or tables; mdl: splines, continuous columns only.",
    ),
    click.option(
        "--learner",
        type=click.Choice(["ges", "hill-climbing", "exact"]),
        default="ges",
        show_default=True,
        help="How a site finds its own best graph; exact: at most 10 variables.",
    ),
    click.option(
        "--objective",
        type=click.Choice(["graph", "nodewise", "sum"]),
        default="graph",
        show_default=True,
        help="Worst case over sites of the graph, or of each variable's parents; or the sum.",
    ),
    click.option(
        "--search",
        type=click.Choice(["beam", "ges"]),
        default="beam",
        show_default=True,
        help="Beam search over DAGs, or greedy search over equivalence classes.",
    ),
    click.option(
        "--beam",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Graphs kept by every step of the beam search.",
    ),
    click.option(
        "--grid-bits",
        type=click.IntRange(min=0, max=20),
        default=10,
        show_default=True,
        help="Regrets are compared on a grid of 2^-GRID_BITS.",
    ),
    click.option(
        "--noise",
        type=click.FloatRange(min=0.0),
        default=0.0,
        show_default=True,
        help="Noise in nats on every regret; discrete columns and --learner exact only.",
    ),
    click.option("--truth", type=FILE, help="True edges (CSV) to measure the graph against."),
]
rfcd_options = shared_options(own_options, conditioning=False)


@click.command("rfcd")
@click.argument("files", nargs=-1, required=True, type=FILE)
@rfcd_options
def run_rfcd(files: tuple[Path, ...], **options: Any) -> None:
    """RFcd over one file per site: CSV, Parquet, DuckDB, or a .toml that names a database."""
    federation, source = from_files(files, options)
    execute(federation, "rfcd", RFCD_PARAMETERS, source, options)


@click.command("rfcd")
@click.argument("data", type=FILE)
@click.option("--sites", type=click.IntRange(min=1), default=3, show_default=True, help="Sites.")
@rfcd_options
def simulate_rfcd(data: Path, sites: int, **options: Any) -> None:
    """RFcd over the parts of one file, split unevenly by the seed."""
    federation, source = from_one_file(data, sites, options)
    execute(federation, "rfcd", RFCD_PARAMETERS, source, options)
