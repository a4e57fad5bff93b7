"""``run``, ``simulate`` and ``repeat``: runs over sites in this process.

All three make the same description, that of ``run.toml``, and carry it out in one way.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cipherdag.algorithms.registry import algorithm_class
from cipherdag.cli.options import FILE, following, run_options, show, site_names
from cipherdag.cli.parameters import parameter_options, taken
from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.sites.table.sources import READABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.algorithms.algorithm import Algorithm
    from cipherdag.federation.simulated import Federation
    from cipherdag.graphs.graph import CausalGraph

DEALS = ("vertical", "horizontal", "uneven")
READINGS = {
    "labels": click.Option(
        ["--labels"], default="", help="Labels, separated by commas; default: schema."
    ),
    "interventions": click.Option(
        ["--interventions"], default="", help="Column that names interventions."
    ),
}


def run_command(name: str) -> click.Command:
    """``run NAME``."""
    return _command(
        name,
        "run",
        [click.Argument(["files"], nargs=-1, required=True, type=FILE)],
        f"{algorithm_class(name).title} over one source per site: {READABLE}.",
    )


def simulate_command(name: str) -> click.Command:
    """``simulate NAME``."""
    own = algorithm_class(name)
    parameters: list[click.Parameter] = [
        click.Argument(["files"], metavar="DATA", nargs=1, type=FILE),
        click.Option(
            ["--sites"], type=click.IntRange(min=1), default=3, show_default=True, help="Sites."
        ),
    ]
    if "interventions" in own.reads:
        told = "Divide every regime of interventions over the sites, or deal out whole ones."
        parameters.append(
            click.Option(
                ["--deal"],
                type=click.Choice(DEALS),
                default=DEALS[0],
                show_default=True,
                help=told,
            )
        )
    return _command(name, "simulate", parameters, f"{own.title} over the parts of one file.")


def _command(name: str, command: str, first: Sequence[click.Parameter], told: str) -> click.Command:
    from cipherdag.findings.conclusion import LearntGraph

    own = algorithm_class(name)
    parameters = [*first, *parameter_options(name), *(READINGS[own] for own in sorted(own.reads))]
    if own.concludes is LearntGraph:
        told_truth = "True edges (CSV) to measure the graph against."
        parameters.append(click.Option(["--truth"], type=FILE, help=told_truth))

    def invoked(**options: Any) -> None:
        execute(
            _described(name, command, options),
            schema=options["schema"],
            labels=tuple(label for label in options.get("labels", "").split(",") if label.strip()),
            interventions=options.get("interventions") or None,
            out=options["out"],
            as_json=options["as_json"],
        )

    return click.Command(
        name, params=[*parameters, *run_options()], callback=invoked, help=told, short_help=told
    )


def _described(name: str, command: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What ``run.toml`` says of a run."""
    files = options["files"] if command == "run" else [options["files"]]
    more = {key: options.get(key) for key in ("sites", "deal", "min_cell_size")}
    truth = options.get("truth")
    return {
        "command": command,
        "files": [str(file.resolve()) for file in files],
        **{key: value for key, value in more.items() if value is not None},
        "algorithm": name,
        **{key: options[key] for key in ("protection", "seed", "device")},
        "truth": str(truth.resolve()) if truth else "",
        "parameters": taken(name, options),
    }


def execute(
    source: Mapping[str, Any],
    *,
    schema: Path | None,
    labels: Sequence[str] = (),
    interventions: str | None = None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Carry out a described run, save its result where ``out`` says, and show it.

    Args:
        source: The description, as ``run.toml`` has it.
        schema: The study's schema; inferred if None.
        labels: Labels in place of the schema's.
        interventions: Column that names interventions, in place of the schema's.
        out: Folder of the result.
        as_json: One JSON object per line.
    """
    from cipherdag.algorithms.registry import make_algorithm
    from cipherdag.results.folder import writable_folder

    if out is not None:
        writable_folder(out)
    federation = _federation(source, schema=schema, labels=labels, interventions=interventions)
    names = federation.sites[0].table.names
    truth = edges(Path(source["truth"]), names) if source.get("truth") else None
    algorithm = make_algorithm(source["algorithm"], source["parameters"])
    result = learn(federation, algorithm, source["seed"], as_json=as_json, source=source)
    if out is not None:
        result.save(out, truth=truth)
    show(result, truth, as_json=as_json)
    if out is not None and not as_json:
        click.echo(f"Saved in {out}")


def _federation(source: Mapping[str, Any], **reading: Any) -> Federation:
    """The sites of a description."""
    from cipherdag.federation.simulated import Federation
    from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy

    protection = source["protection"]
    policy = Policy(
        # who runs all sites is the coordinator that they trust
        questions=QUESTION_KINDS,
        allow_unprotected=not PROTECTIONS[protection].protects,
        min_cell_size=source.get("min_cell_size", Policy().min_cell_size),
    )
    shared = {"protection": protection, "device": source["device"], "policy": policy, **reading}
    files = [Path(file) for file in source["files"]]
    if source["command"] == "run":
        return Federation.simulate(dict(zip(site_names(files), files, strict=True)), **shared)
    deal = source.get("deal", "uneven")
    return Federation.split(files[0], source["sites"], seed=source["seed"], deal=deal, **shared)


def learn(
    federation: Federation,
    algorithm: Algorithm[Any, Any],
    seed: int,
    *,
    as_json: bool,
    source: Mapping[str, Any],
) -> Any:
    """The result of an algorithm, with a line per round."""
    from cipherdag.cli.terminal import heading

    n_sites, names = len(federation.sites), federation.sites[0].table.names
    if not as_json:
        click.echo("\n" + heading(algorithm.title, n_sites, federation.protection))
    with following(as_json=as_json, n_sites=n_sites, names=names) as progress:
        return federation.run(algorithm, seed=seed, progress=progress, source=source)


def edges(path: Path, nodes: Sequence[str]) -> CausalGraph:
    """The graph of a CSV of edges over these variables."""
    from cipherdag.graphs.graph import CausalGraph

    return CausalGraph.from_csv(path.read_text("utf-8"), nodes=tuple(nodes))
