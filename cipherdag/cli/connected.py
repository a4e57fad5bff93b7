"""``coordinator run ALGORITHM``: what all algorithms have in common over real sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.cli.options import as_parameters, following, say, with_options
from cipherdag.cli.resuming import show_connected
from cipherdag.cli.site import in_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# options of runs in one process
NOT_CONNECTED = frozenset({"schema", "device", "truth", "labels", "min_cell_size", "interventions"})

connect_options = with_options(
    [
        in_folder,
        click.option(
            "--timeout", type=float, default=600.0, show_default=True, help="Seconds per step."
        ),
        click.option(
            "--wait-for-approval",
            "approval_s",
            type=float,
            default=0.0,
            show_default=True,
            help="Seconds to wait for sites where a person approves every run.",
        ),
    ]
)


def run_command(
    name: str, options: Callable[[Callable[..., None]], Any], parameters: Sequence[str]
) -> click.Command:
    """``coordinator run NAME``: the algorithm's options, less those of runs in one process.

    Args:
        name: The algorithm, such as "fedpc".
        options: Adds its options to a function.
        parameters: Which of them are the algorithm's parameters.
    """

    def run(folder: Path, **chosen: Any) -> None:
        _run(folder, name, parameters, **chosen)

    run.__doc__ = (
        f"{ALGORITHMS[name]} over the enrolled sites; names stay there, the result speaks of "
        "identifiers."
    )
    decorated = connect_options(options(run))
    decorated.__click_params__[:] = [
        parameter for parameter in decorated.__click_params__ if parameter.name not in NOT_CONNECTED
    ]
    command: click.Command = click.command(name)(decorated)
    return command


def _run(
    folder: Path,
    name: str,
    parameters: Sequence[str],
    *,
    timeout: float,
    approval_s: float,
    **options: Any,
) -> None:
    from cipherdag.algorithms.registry import make_algorithm
    from cipherdag.cli.terminal import heading
    from cipherdag.federation.simulated import Federation
    from cipherdag.results.folder import writable_folder

    if options["out"] is not None:
        writable_folder(options["out"])
    as_json = options["as_json"]
    federation = Federation.connect(
        folder, protection=options["protection"], timeout_s=timeout, approval_s=approval_s
    )
    chosen = {parameter: options[parameter] for parameter in parameters}
    n_sites = len(federation.study.sites)

    def begun(run: Path) -> None:
        if not as_json:
            say(heading(ALGORITHMS[name], n_sites, federation.protection))
            say(f"If it is cut short: cipherdag coordinator run --resume {run}")

    source = {
        "command": "coordinator run",
        "folder": str(folder.resolve()),
        "algorithm": name,
        "protection": options["protection"],
        "seed": options["seed"],
        "parameters": chosen,
    }
    algorithm = make_algorithm(name, as_parameters(chosen))
    with following(as_json=as_json, n_sites=n_sites) as progress:
        result = federation.run(
            algorithm, seed=options["seed"], progress=progress, source=source, begun=begun
        )
    show_connected(result, options["out"], as_json=as_json)
