"""The commands of RFcd: ``run rfcd``, ``simulate rfcd`` and ``coordinator run rfcd``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.running import FILE, progress_printer, shared_options, show, site_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cipherdag.algorithms.rfcd import RFcd
    from cipherdag.federation import Federation

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
    """RFcd over one CSV or Parquet file per site."""
    from cipherdag.federation import Federation

    federation = Federation.simulate(
        dict(zip(site_names(files), files, strict=True)),
        schema=options["schema"],
        protection=options["protection"],
        device=options["device"],
    )
    source = {"command": "run", "files": [str(file.resolve()) for file in files]}
    _in_process(federation, source, options)


@click.command("rfcd")
@click.argument("data", type=FILE)
@click.option("--sites", type=click.IntRange(min=1), default=3, show_default=True, help="Sites.")
@rfcd_options
def simulate_rfcd(data: Path, sites: int, **options: Any) -> None:
    """RFcd over the parts of one file, split unevenly by the seed."""
    from cipherdag.federation import Federation

    federation = Federation.split(
        data,
        sites,
        seed=options["seed"],
        schema=options["schema"],
        protection=options["protection"],
        device=options["device"],
    )
    source = {"command": "simulate", "files": [str(data.resolve())], "sites": sites}
    _in_process(federation, source, options)


def _in_process(federation: Federation, source: dict[str, Any], options: Mapping[str, Any]) -> None:
    source |= {
        "device": options["device"],
        "truth": str(options["truth"].resolve()) if options["truth"] else "",
    }
    _run(federation, len(federation.sites), source, options)


def _algorithm(options: Mapping[str, Any]) -> RFcd:
    from cipherdag.algorithms.rfcd import RFcd

    return RFcd(**{name: options[name] for name in RFCD_PARAMETERS})


def _run(
    federation: Federation,
    n_sites: int,
    source: dict[str, Any],
    options: Mapping[str, Any],
) -> None:
    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.result import writable_folder
    from cipherdag.terminal import heading, result_lines

    out, as_json, truth_file = options["out"], options["as_json"], options.get("truth")
    algorithm = _algorithm(options)
    if out is not None:
        writable_folder(out)
    if not as_json:
        click.echo("\n" + heading("RFcd", n_sites, federation.protection))
    source |= {name: options[name] for name in ("protection", "seed")}
    source |= {"algorithm": "rfcd", "parameters": {name: options[name] for name in RFCD_PARAMETERS}}
    result = federation.run(
        algorithm,
        seed=options["seed"],
        progress=progress_printer(as_json=as_json, names=federation.sites[0].table.names),
        source=source,
    )
    truth = None
    if truth_file is not None:
        truth = CausalGraph.from_csv(truth_file.read_text("utf-8"), nodes=result.graph.nodes)
    if out is not None:
        result.save(out, truth=truth)
    report = result.to_dict(truth)
    show(report, lambda: result_lines(result, truth), result.ledgers, as_json=as_json)
    if out is not None and not as_json:
        click.echo(f"Saved in {out}")
