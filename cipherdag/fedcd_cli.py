"""The commands of Fed-CD: ``run fedcd`` and ``simulate fedcd``, and the options of all its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.running import (
    FILE,
    progress_printer,
    shared_options,
    show,
    site_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cipherdag.algorithms.fedcd import FedCD
    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.federation import Federation

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
    """Fed-CD over one CSV or Parquet file per site."""
    from cipherdag.federation import Federation

    federation = Federation.simulate(
        dict(zip(site_names(files), files, strict=True)),
        schema=options["schema"],
        interventions=options.get("interventions") or None,
        protection=options["protection"],
        device=options["device"],
    )
    source = {"command": "run", "files": [str(file.resolve()) for file in files]}
    _execute(federation, source, options)


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
    from cipherdag.federation import Federation

    federation = Federation.split(
        data,
        sites,
        seed=options["seed"],
        schema=options["schema"],
        interventions=options.get("interventions") or None,
        deal=deal,  # type: ignore[arg-type]  # click checked it
        protection=options["protection"],
        device=options["device"],
    )
    source = {
        "command": "simulate",
        "files": [str(data.resolve())],
        "sites": sites,
        "deal": deal,
    }
    _execute(federation, source, options)


def _algorithm(options: Mapping[str, Any]) -> FedCD:
    from cipherdag.algorithms.fedcd import FedCD

    return FedCD(**{name: options[name] for name in FEDCD_PARAMETERS})


def _described(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a saved run says of itself."""
    return {
        "algorithm": "fedcd",
        "protection": options["protection"],
        "seed": options["seed"],
        "parameters": {name: options[name] for name in FEDCD_PARAMETERS},
    }


def _execute(federation: Federation, source: dict[str, Any], options: Mapping[str, Any]) -> None:
    from cipherdag.result import writable_folder
    from cipherdag.terminal import heading, result_lines

    out, as_json = options["out"], options["as_json"]
    algorithm = _algorithm(options)
    truth = _truth(options["truth"], federation)
    if out is not None:
        writable_folder(out)
    if not as_json:
        click.echo("\n" + heading("Fed-CD", len(federation.sites), federation.protection))
    result = federation.run(
        algorithm,
        seed=options["seed"],
        progress=progress_printer(as_json=as_json, names=federation.sites[0].table.names),
        source=_described(options)
        | source
        | {
            "device": options["device"],
            "truth": str(options["truth"].resolve()) if options["truth"] else "",
        },
    )
    if out is not None:
        result.save(out, truth=truth)
    report = result.to_dict(truth)
    show(report, lambda: result_lines(result, truth), result.ledgers, as_json=as_json)
    if out is not None and not as_json:
        click.echo(f"Saved in {out}")


def _truth(path: Path | None, federation: Federation) -> CausalGraph | None:
    from cipherdag.algorithms.graphs import CausalGraph

    if path is None:
        return None
    return CausalGraph.from_csv(path.read_text("utf-8"), nodes=federation.sites[0].table.names)
