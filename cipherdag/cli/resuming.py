"""``--resume``: the command line's way back into a coordinator's run that was cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cipherdag.cli.options import following, with_options
from cipherdag.errors import ParameterError

if TYPE_CHECKING:
    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.results.result import Result

DEFAULT = ParameterSource.DEFAULT
FOLDER = click.Path(file_okay=False, path_type=Path)

resume_options = with_options(
    [
        click.option(
            "--resume",
            type=FOLDER,
            help="Go on with the run in this folder under runs/, after a crash of the coordinator.",
        ),
        click.option("--timeout", type=float, default=600.0, help="With --resume: seconds a step."),
        click.option(
            "--wait-for-approval",
            "approval_s",
            type=float,
            default=0.0,
            help="With --resume: seconds to wait for people at the sites.",
        ),
        click.option("--out", type=FOLDER, help="With --resume: folder for the result."),
        click.option("--json", "as_json", is_flag=True, help="With --resume: JSON lines."),
    ]
)


def resume_or_command(context: click.Context, *, resume: Path | None, **options: Any) -> None:
    """Go on with a run, or leave it to the subcommand that starts one."""
    if resume is not None and context.invoked_subcommand is not None:
        raise click.UsageError("--resume takes algorithm and parameters from the run: name none")
    given = [name for name in options if context.get_parameter_source(name) != DEFAULT]
    if resume is None and given and context.invoked_subcommand is not None:
        raise click.UsageError("an algorithm's options stand after its name")
    if resume is not None:
        _resume(resume, **options)
    elif context.invoked_subcommand is None:
        raise click.UsageError("name an algorithm, or a run to go on with by --resume", context)


def show_connected(result: Result | FeatureResult, out: Path | None, *, as_json: bool) -> None:
    """Save and print the result of a run over real sites."""
    from cipherdag.cli.terminal import feature_lines, result_lines
    from cipherdag.results.result import Result

    if out is not None:
        result.save(out)
    if as_json:
        click.echo(json.dumps({"result": result.to_dict()}))
        return
    lines = result_lines(result) if isinstance(result, Result) else feature_lines(result)
    click.echo("\n".join(lines))
    click.echo("The signed result for the sites lies in the run's folder.")


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
    show_connected(result, out, as_json=as_json)
