"""``coordinator run``: an algorithm over real sites; ``--resume`` goes on with a run cut short."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cipherdag.algorithms.registry import algorithm_class
from cipherdag.cli.options import (
    EXISTING_FOLDER,
    FOLDER,
    LIVE,
    PROTECTION,
    SEED,
    following,
    out_options,
    say,
    show,
)
from cipherdag.cli.parameters import AlgorithmGroup, parameter_options, taken
from cipherdag.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cipherdag.protocol.messages import Protection
    from cipherdag.results.run import Run


def waiting_options() -> list[click.Option]:
    """How long to wait for sites and for people."""
    return [
        click.Option(
            ["--timeout"], type=float, default=600.0, show_default=True, help="Seconds per step."
        ),
        click.Option(
            ["--wait-for-approval", "approval_s"],
            type=float,
            default=0.0,
            show_default=True,
            help="Seconds to wait for sites where a person approves every run.",
        ),
    ]


def connected_command(name: str) -> click.Command:
    """``coordinator run NAME``."""
    title = algorithm_class(name).title
    told = f"{title} over the enrolled sites; names stay there, the result speaks of identifiers."
    folder = click.Option(
        ["--dir", "folder"],
        type=EXISTING_FOLDER,
        default=".",
        show_default="this folder",
        help="Folder of the coordinator.",
    )
    return click.Command(
        name,
        params=[
            folder,
            *waiting_options(),
            PROTECTION,
            *parameter_options(name),
            SEED,
            *out_options(),
            LIVE,
        ],
        callback=partial(_run, name),
        help=told,
        short_help=told,
    )


def _run(
    name: str,
    *,
    folder: Path,
    timeout: float,
    approval_s: float,
    protection: Protection,
    seed: int,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    from cipherdag.algorithms.registry import make_algorithm
    from cipherdag.cli.terminal import heading
    from cipherdag.federation.simulated import Federation
    from cipherdag.results.folder import writable_folder

    if out is not None:
        writable_folder(out)
    federation = Federation.connect(
        folder, protection=protection, timeout_s=timeout, approval_s=approval_s
    )
    parameters = taken(name, options)
    algorithm = make_algorithm(name, parameters)
    n_sites = len(federation.study.sites)

    def begun(run: Path) -> None:
        if not as_json:
            say(heading(algorithm.title, n_sites, federation.protection))
            say(f"If it is cut short: cipherdag coordinator run --resume {run}")

    source = {
        "command": "coordinator run",
        "folder": str(folder.resolve()),
        "algorithm": name,
        "protection": protection,
        "seed": seed,
        "parameters": parameters,
    }
    with following(as_json=as_json, n_sites=n_sites) as progress:
        result = federation.run(algorithm, seed=seed, progress=progress, source=source, begun=begun)
    _show_connected(result, out, as_json=as_json)


def resumable_group(name: str, make: Callable[[str], click.Command], told: str) -> AlgorithmGroup:
    """A group of algorithms' commands that can also go on with a coordinator's run.

    Args:
        name: The group's name.
        make: Makes the command of an algorithm's name.
        told: What the group does, without a full stop.
    """
    resume = "Go on with the run in this folder under runs/, after a crash of the coordinator."
    options = [*waiting_options(), *out_options()]
    for option in options:
        option.help = f"With --resume: {option.help}"
    return AlgorithmGroup(
        name,
        make,
        params=[click.Option(["--resume"], type=FOLDER, help=resume), *options],
        invoke_without_command=True,
        callback=_resume_or_command,
        help=f"{told}, or go on with one that was cut short.",
    )


@click.pass_context
def _resume_or_command(context: click.Context, /, *, resume: Path | None, **options: Any) -> None:
    """Go on with a run, or leave it to the subcommand that starts one."""
    if resume is not None and context.invoked_subcommand is not None:
        raise click.UsageError("--resume takes algorithm and parameters from the run: name none")
    default = ParameterSource.DEFAULT
    given = [name for name in options if context.get_parameter_source(name) != default]
    if resume is None and given and context.invoked_subcommand is not None:
        raise click.UsageError("an algorithm's options stand after its name")
    if resume is not None:
        _resume(resume, **options)
    elif context.invoked_subcommand is None:
        raise click.UsageError("name an algorithm, or a run to go on with by --resume", context)


def _resume(
    folder: Path, *, timeout: float, approval_s: float, out: Path | None, as_json: bool
) -> None:
    from cipherdag.federation.simulated import Federation
    from cipherdag.results.folder import writable_folder

    run = folder.resolve()
    if run.parent.name != "runs":
        raise ParameterError(
            f"{folder} is not under runs/ of a coordinator's folder",
            remedy="Name the folder that `cipherdag coordinator run` printed when it began.",
        )
    if out is not None:
        writable_folder(out)
    federation = Federation.connect(run.parent.parent, timeout_s=timeout, approval_s=approval_s)
    with following(as_json=as_json) as progress:
        result = federation.resume(run, progress=progress)
    _show_connected(result, out, as_json=as_json)


def _show_connected(result: Run, out: Path | None, *, as_json: bool) -> None:
    """Save and print the result of a run over real sites."""
    if out is not None:
        result.save(out)
    show(result, None, as_json=as_json)
    if not as_json:
        click.echo("The signed result for the sites lies in the run's folder.")
