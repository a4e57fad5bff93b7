"""``coordinator run``: an algorithm over real sites; ``--resume`` goes on with a run cut short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cipherdag.cli.help import example
from cipherdag.cli.in_process import resume_run
from cipherdag.cli.options import (
    FILE,
    FOLDER,
    FORCE,
    LIVE,
    NEW_FILE,
    PROTECTION,
    SEED,
    folder_option,
    following,
    out_options,
    say,
    show,
)
from cipherdag.cli.parameters import (
    AlgorithmCommand,
    AlgorithmGroup,
    naming_other_sets,
    needed,
    nothing_named,
    parameter_options,
    taken,
    use_of,
    usual_options,
)
from cipherdag.cli.programs.printed import Planned, printed
from cipherdag.errors import ParameterError
from cipherdag.protocol.durable_files import OPEN, write_whole

if TYPE_CHECKING:
    from cipherdag.federation.connected import ConnectedFederation
    from cipherdag.protocol.plan import Plan
    from cipherdag.results.run import Run

SETTINGS = ("purpose", "requester", "lacking", "visits", "protection", "timeout_s", "approval_s")
"""Options that `Federation.connect` takes as they are."""


def waiting_options() -> list[click.Option]:
    """Options that limit the wait for sites and for people."""
    return [
        click.Option(
            ["--timeout", "timeout_s"],
            type=float,
            default=600.0,
            show_default=True,
            help="Seconds per step.",
        ),
        click.Option(
            ["--wait-for-approval", "approval_s"],
            type=float,
            default=3600.0,
            show_default=True,
            help="Seconds to wait for the people at the sites who decide on the plan.",
        ),
    ]


def asking_options() -> list[click.Option]:
    """Options for the texts that the people at the sites read beside the plan."""
    return [
        click.Option(["--purpose"], required=True, help="What the result is for; sites read it."),
        click.Option(["--requester"], default="", help="Who asks for it; sites read it."),
        click.Option(
            ["--lacking"],
            multiple=True,
            callback=lambda _context, _option, given: dict(map(_lacking, given)),
            help="SITE=1,2: numbers of variables that a site lacks, as `schema overlap` prints "
            "them; for several sites several times.",
        ),
        click.Option(
            ["--visits"],
            multiple=True,
            help="SITE whose rows are visits of patients; for several sites several times.",
        ),
    ]


def _lacking(given: str) -> tuple[str, list[int]]:
    site, _, numbers = given.rpartition("=")
    try:
        return site, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise click.BadParameter(f"'{given}' is not like kiel=1,2") from None


def connected_command(name: str) -> click.Command:
    """``coordinator run NAME``."""
    more = "Names of columns stay at the sites: here the result has numbers in their place."
    return _asking(name, "run", [*out_options(), *waiting_options(), LIVE], more, _run)


def plan_command(name: str) -> click.Command:
    """``coordinator plan NAME``."""
    options = [
        click.Option(["--out"], type=NEW_FILE, help="File for the plan, for `run --plan`."),
        click.Option(["--force"], **FORCE),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
    ]
    more = "Print what would be asked of the sites. Nothing is sent."
    return _asking(name, "plan", options, more, _plan)


def _asking(
    name: str, verb: str, options: list[click.Option], more: str, callback: Callable[..., None]
) -> AlgorithmCommand:
    """A command of an algorithm over enrolled sites, with some options of its own."""
    purpose = '--purpose "Which habits matter?"'
    asked = [*asking_options(), *parameter_options(name), PROTECTION, SEED, folder_option()]
    options = [*asked, *options]
    return AlgorithmCommand(
        name,
        usual=usual_options(name, options),
        params=options,
        callback=partial(callback, name),
        help=f"{use_of(name)}\n\n{more}",
        short_help=use_of(name),
        epilog=example(f"cipherdag coordinator {verb} {name} {purpose}{needed(name)}"),
    )


def _asked(
    name: str, folder: Path, options: Mapping[str, Any], seed: int
) -> tuple[ConnectedFederation, Plan]:
    """The sites that the options speak of, and the plan of an algorithm over them."""
    from cipherdag.algorithms.registry import make_algorithm
    from cipherdag.federation.simulated import Federation

    settings = {key: options[key] for key in SETTINGS if key in options}
    federation = Federation.connect(folder, **settings)
    return federation, federation.plan(make_algorithm(name, taken(name, options)), seed=seed)


def _plan(
    name: str, *, folder: Path, seed: int, out: Path | None, as_json: bool, **options: Any
) -> None:
    federation, plan = _asked(name, folder, options, seed)
    lines = str(federation.explain(plan)).splitlines()
    value = Planned(plan.session.hex(), tuple(lines), None if out is None else str(out))
    if out is not None:
        write_whole(out, plan.dumps(), mode=OPEN)
        lines.append(f"Wrote {out}; a site reads it by `cipherdag site check --plan`.")
    printed(value, lines, as_json=as_json)


def _run(
    name: str,
    *,
    folder: Path,
    seed: int,
    out: Path | None,
    as_json: bool,
    force: bool,
    **options: Any,
) -> None:
    federation, plan = _asked(name, folder, options, seed)
    with naming_other_sets(name, plan.parameters):
        _carry_out(federation, plan, out, as_json=as_json, force=force)


def _carry_out(
    federation: ConnectedFederation, plan: Plan, out: Path | None, *, as_json: bool, force: bool
) -> None:
    """Have the sites carry a plan out, and say which and how it goes."""
    from cipherdag.algorithms.registry import make_algorithm
    from cipherdag.cli.terminal import heading
    from cipherdag.results.folder import new_result_folder

    if out is not None:
        new_result_folder(out, force=force)
    algorithm, n_sites = make_algorithm(plan.algorithm, plan.parameters), len(plan.cohort)

    def begun(run: Path) -> None:
        if not as_json:
            say(heading(algorithm, n_sites, plan.protection))
            say(f"Run {plan.session.hex()[:8]} waits for the people at the sites, by default:")
            say(f"  cipherdag site approve {plan.session.hex()[:8]}")
            say(f"If it is cut short: cipherdag coordinator run --resume {run}")

    source = {
        "command": "coordinator run",
        "folder": str(federation.folder.path.resolve()),
        "algorithm": plan.algorithm,
        "protection": plan.protection,
        "seed": plan.seed,
        "parameters": plan.parameters,
    }
    most = algorithm.most_rounds
    with following(as_json=as_json, n_sites=n_sites, most_rounds=most) as progress:
        result = federation.carry_out_plan(plan, progress=progress, source=source, begun=begun)
    _show_connected(result, out, as_json=as_json)


def resumable_group(
    name: str,
    make: Callable[[str], click.Command],
    summary: str,
    *,
    takes_files: bool = False,
    connected: bool = True,
) -> AlgorithmGroup:
    """A group of algorithms' commands that can also go on with a run that was stopped.

    Connected, with one over real sites, too, and carry out a plan of such a run. ``summary`` says
    what the group does, without a full stop.
    """
    resume = "Go on with a run that was stopped, in the folder that it named"
    planned = "Carry out the plan in this file, which `coordinator plan` wrote."
    more = "; after a crash of the coordinator in the one under runs/" if connected else ""
    params: list[click.Parameter] = [
        click.Option(["--resume"], type=FOLDER, help=f"{resume}{more}."),
        *out_options(),
    ]
    if connected:
        plan = click.Option(["--plan"], type=FILE, help=planned)
        params[1:1] = [plan, folder_option(), *waiting_options()]
    saved = ", carry out a saved plan," if connected else ""
    return AlgorithmGroup(
        name,
        make,
        takes_files=takes_files,
        params=params,
        invoke_without_command=True,
        callback=_resume_or_command,
        help=f"{summary}{saved} or go on with a run that was stopped.",
    )


@click.pass_context
def _resume_or_command(
    context: click.Context,
    /,
    *,
    resume: Path | None,
    plan: Path | None = None,
    folder: Path | None = None,
    **options: Any,
) -> None:
    """Go on with a run, carry out a plan, or leave it to the subcommand that starts one."""
    if resume is not None and plan is not None:
        raise click.UsageError("--resume goes on with a run, and --plan begins one: name one")
    if (resume or plan) is not None and context.invoked_subcommand is not None:
        raise click.UsageError("--resume and --plan say which algorithm runs: name none")
    usual = (ParameterSource.DEFAULT, None)
    given = [
        each for each in ("folder", *options) if context.get_parameter_source(each) not in usual
    ]
    if (resume or plan) is None and given and context.invoked_subcommand is not None:
        raise click.UsageError("an algorithm's options stand after its name")
    if resume is not None and folder is None:  # of sites in this process alone
        resume_run(resume, **options)
    elif resume is not None:
        _resume(resume, **options)
    elif plan is not None and folder is not None:
        _saved_plan(plan, folder, **options)
    elif context.invoked_subcommand is None:
        raise nothing_named(context)


def _saved_plan(
    file: Path, folder: Path, *, out: Path | None, as_json: bool, force: bool, **waiting: Any
) -> None:
    from cipherdag.federation.simulated import Federation
    from cipherdag.protocol.plan import Plan

    plan = Plan.read(file)
    federation = Federation.connect(folder, purpose=plan.purpose, **waiting)
    _carry_out(federation, plan, out, as_json=as_json, force=force)


def _resume(folder: Path, *, out: Path | None, as_json: bool, force: bool, **waiting: Any) -> None:
    from cipherdag.federation.simulated import Federation
    from cipherdag.results.folder import UNFINISHED, new_result_folder

    if (folder / UNFINISHED).exists():
        resume_run(folder, out, as_json=as_json, force=force)
        return
    run = folder.resolve()
    if run.parent.name != "runs":
        if (run / "result.json").exists():
            raise ParameterError(
                f"the run in {folder} came to its end",
                remedy="Read its result there, or make it again with `cipherdag repeat`.",
            )
        raise ParameterError(
            f"{folder} is not under runs/ of a coordinator's folder",
            remedy="Name the folder that `cipherdag coordinator run` printed when it began, or "
            "the one that a stopped `run` or `simulate` named.",
        )
    if out is not None:
        new_result_folder(out, force=force)
    federation = Federation.connect(run.parent.parent, purpose="", **waiting)
    with following(as_json=as_json) as progress:
        result = federation.resume(run, progress=progress)
    _show_connected(result, out, as_json=as_json)


def _show_connected(result: Run[Any], out: Path | None, *, as_json: bool) -> None:
    """Save and print the result of a run over real sites."""
    if out is not None:
        result.save(out, force=True)
    at_sites = "at each site, cipherdag site releases"
    show(result, None, as_json=as_json, all_that_left=at_sites)
    if not as_json:
        click.echo("Every site reads the same with its names: cipherdag site result")
