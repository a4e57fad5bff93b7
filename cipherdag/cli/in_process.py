"""``run`` and ``simulate``: what all algorithms have in common over sites in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.cli.options import as_parameters, following, show, site_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cipherdag.algorithms.registry import Algorithm
    from cipherdag.federation.simulated import Federation
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.results.result import Result


def from_files(
    files: Sequence[Path], options: Mapping[str, Any], **own: Any
) -> tuple[Federation, dict[str, Any]]:
    """Sites from one file each, and what a saved run says of its command.

    Args:
        files: One file per site, which is called like it.
        options: The command's options.
        own: What the algorithm adds to `Federation.simulate`.
    """
    from cipherdag.federation.simulated import Federation

    federation = Federation.simulate(
        dict(zip(site_names(files), files, strict=True)),
        schema=options["schema"],
        protection=options["protection"],
        device=options["device"],
        **own,
    )
    return federation, {"command": "run", "files": [str(file.resolve()) for file in files]}


def from_one_file(
    data: Path, sites: int, options: Mapping[str, Any], **own: Any
) -> tuple[Federation, dict[str, Any]]:
    """Sites from the parts of one file, and what a saved run says of its command.

    Args:
        data: The file.
        sites: How many sites.
        options: The command's options.
        own: What the algorithm adds to `Federation.split`.
    """
    from cipherdag.federation.simulated import Federation

    federation = Federation.split(
        data,
        sites,
        seed=options["seed"],
        schema=options["schema"],
        protection=options["protection"],
        device=options["device"],
        **own,
    )
    return federation, {"command": "simulate", "files": [str(data.resolve())], "sites": sites}


def execute(
    federation: Federation,
    name: str,
    parameters: Sequence[str],
    source: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    """Run an algorithm, save its result where ``--out`` says, and show it.

    Args:
        federation: The sites.
        name: The algorithm, such as "fedpc".
        parameters: Which options are its parameters.
        source: What a saved run says of its command.
        options: The command's options.
    """
    from cipherdag.algorithms.registry import make_algorithm
    from cipherdag.results.folder import writable_folder

    out, as_json = options["out"], options["as_json"]
    if out is not None:
        writable_folder(out)
    described = {"algorithm": name} | {n: options[n] for n in ("protection", "seed", "device")}
    compared = {}
    if "truth" in options:
        path = options["truth"]
        described["truth"] = str(path.resolve()) if path else ""
        compared["truth"] = edges(path, federation.sites[0].table.names) if path else None
    chosen = {parameter: options[parameter] for parameter in parameters}
    result = learn(
        federation,
        make_algorithm(name, as_parameters(chosen)),
        options["seed"],
        as_json=as_json,
        source={**source, **described, "parameters": chosen},
    )
    if out is not None:
        result.save(out, **compared)
    show_result(result, as_json=as_json, **compared)
    if out is not None and not as_json:
        click.echo(f"Saved in {out}")


def learn(
    federation: Federation,
    algorithm: Algorithm,
    seed: int,
    *,
    as_json: bool,
    source: Mapping[str, Any],
) -> Any:
    """The result of an algorithm, with a line per round."""
    from cipherdag.cli.terminal import heading

    if not as_json:
        title = ALGORITHMS[algorithm.name]
        click.echo("\n" + heading(title, len(federation.sites), federation.protection))
    n_sites, names = len(federation.sites), federation.sites[0].table.names
    with following(as_json=as_json, n_sites=n_sites, names=names) as progress:
        return federation.run(algorithm, seed=seed, progress=progress, source=source)


def show_result(
    result: Result | FeatureResult, truth: CausalGraph | None = None, *, as_json: bool
) -> None:
    """Print a result with what left each site; a graph beside the true one, if it is known."""
    from cipherdag.cli.terminal import feature_lines, result_lines
    from cipherdag.results.result import Result

    if isinstance(result, Result):
        graph, report = result, result.to_dict(truth)
        show(report, lambda: result_lines(graph, truth), result.ledgers, as_json=as_json)
    else:
        chosen = result
        show(result.to_dict(), lambda: feature_lines(chosen), result.ledgers, as_json=as_json)


def edges(path: Path, nodes: Sequence[str]) -> CausalGraph:
    """The graph of a CSV of edges over these variables."""
    from cipherdag.graphs.graph import CausalGraph

    return CausalGraph.from_csv(path.read_text("utf-8"), nodes=tuple(nodes))
