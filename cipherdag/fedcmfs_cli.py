"""The commands of FedCMFS: ``run fedcmfs``, ``simulate fedcmfs`` and their repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.running import (
    FILE,
    as_parameters,
    progress_printer,
    shared_options,
    show,
    site_names,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cipherdag.federation import Federation

FEDCMFS_PARAMETERS = ("alpha", "k1", "k2", "max_cond_size", "test", "retrieval")

fedcmfs_options = shared_options(
    [
        click.option("--labels", default="", help="Labels, separated by commas; default: schema."),
        click.option("--alpha", type=float, default=0.05, show_default=True, help="Test level."),
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
    """FedCMFS over one CSV or Parquet file per site."""
    from cipherdag.federation import Federation

    federation = Federation.simulate(
        dict(zip(site_names(files), files, strict=True)),
        schema=options["schema"],
        labels=_labels(options),
        protection=options["protection"],
        device=options["device"],
    )
    source = {"command": "run", "files": [str(file.resolve()) for file in files]}
    _execute(federation, source, options)


@click.command("fedcmfs")
@click.argument("data", type=FILE)
@click.option("--sites", type=click.IntRange(min=1), default=3, show_default=True, help="Sites.")
@fedcmfs_options
def simulate_fedcmfs(data: Path, sites: int, **options: Any) -> None:
    """FedCMFS over the parts of one file, split unevenly by the seed."""
    from cipherdag.federation import Federation

    federation = Federation.split(
        data,
        sites,
        seed=options["seed"],
        schema=options["schema"],
        labels=_labels(options),
        protection=options["protection"],
        device=options["device"],
    )
    source = {"command": "simulate", "files": [str(data.resolve())], "sites": sites}
    _execute(federation, source, options)


def _labels(options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in options.get("labels", "").split(",") if name.strip())


def _execute(federation: Federation, source: dict[str, Any], options: Mapping[str, Any]) -> None:
    from cipherdag.algorithms.fedcmfs import FedCMFS
    from cipherdag.result import writable_folder
    from cipherdag.terminal import feature_lines, heading

    out, as_json = options["out"], options["as_json"]
    chosen = {name: options[name] for name in FEDCMFS_PARAMETERS}
    algorithm = FedCMFS(**as_parameters(chosen))
    if out is not None:
        writable_folder(out)
    if not as_json:
        click.echo("\n" + heading("FedCMFS", len(federation.sites), federation.protection))
    result = federation.run(
        algorithm,
        seed=options["seed"],
        progress=progress_printer(as_json=as_json, names=federation.sites[0].table.names),
        source=source
        | {name: options[name] for name in ("protection", "seed", "device")}
        | {"algorithm": "fedcmfs", "parameters": chosen},
    )
    if out is not None:
        result.save(out)
    report = result.to_dict()
    show(report, lambda: feature_lines(result), result.ledgers, as_json=as_json)
    if out is not None and not as_json:
        click.echo(f"Saved in {out}")
