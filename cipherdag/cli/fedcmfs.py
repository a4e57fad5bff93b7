"""The commands of FedCMFS: ``run fedcmfs``, ``simulate fedcmfs`` and their repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.cli.in_process import execute, from_files, from_one_file
from cipherdag.cli.options import FILE, shared_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


FEDCMFS_PARAMETERS = ("alpha", "evidence", "k1", "k2", "max_cond_size", "test", "retrieval")

fedcmfs_options = shared_options(
    [
        click.option("--labels", default="", help="Labels, separated by commas; default: schema."),
        click.option("--alpha", type=float, default=0.05, show_default=True, help="Test level."),
        click.option(
            "--evidence",
            type=click.Choice(["weighted_p", "statistic", "fisher", "stouffer"]),
            default="weighted_p",
            show_default=True,
            help="How the sites' tests become one; weighted_p is the paper's.",
        ),
        click.option(
            "--k1",
            type=float,
            default=10.0,
            show_default=True,
            help="Percent of the left-out features that FedCFR looks at.",
        ),
        click.option(
            "--k2",
            type=float,
            default=10.0,
            show_default=True,
            help="Percent of a label's features that FedCFC checks, the weakest.",
        ),
        click.option(
            "--retrieval",
            type=click.Choice(["interchangeable", "paper"]),
            default="interchangeable",
            show_default=True,
            help="Which features FedCFR brings back.",
        ),
        click.option(
            "--test",
            type=click.Choice(["auto", "g2", "pearson", "fisherz", "likelihood-ratio"]),
            default="auto",
            show_default=True,
            help="CI test; auto follows the schema.",
        ),
    ]
)


@click.command("fedcmfs")
@click.argument("files", nargs=-1, required=True, type=FILE)
@fedcmfs_options
def run_fedcmfs(files: tuple[Path, ...], **options: Any) -> None:
    """FedCMFS over one file per site: CSV, Parquet, DuckDB, or a .toml that names a database."""
    federation, source = from_files(files, options, labels=_labels(options))
    execute(federation, "fedcmfs", FEDCMFS_PARAMETERS, source, options)


@click.command("fedcmfs")
@click.argument("data", type=FILE)
@click.option("--sites", type=click.IntRange(min=1), default=3, show_default=True, help="Sites.")
@fedcmfs_options
def simulate_fedcmfs(data: Path, sites: int, **options: Any) -> None:
    """FedCMFS over the parts of one file, split unevenly by the seed."""
    federation, source = from_one_file(data, sites, options, labels=_labels(options))
    execute(federation, "fedcmfs", FEDCMFS_PARAMETERS, source, options)


def _labels(options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in options.get("labels", "").split(",") if name.strip())
