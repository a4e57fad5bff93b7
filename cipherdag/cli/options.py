"""What commands share: options, progress of a run, showing its result, and naming tables."""

from __future__ import annotations

import glob
import json
import os
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cipherdag.errors import (
    DataError,
    ParameterError,
    PrivacyError,
    ResultExistsError,
    SiteNotReadyError,
    SiteUnreachableError,
)
from cipherdag.pages.language import LANGUAGES
from cipherdag.privacy.protections import DEFAULT, PROTECTIONS

if TYPE_CHECKING:
    from cipherdag.cli.live import LiveRun
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.protocol.progress import RoundReport
    from cipherdag.results.run import Run

LIVE_RUN = "cipherdag.live"
SILENCE_S = 8.0
LONGEST_SILENCE_S = 300.0
"""A long round is mentioned after `SILENCE_S`, then after pauses that double up to the longest."""
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
_FORCED = "cipherdag.forced"
TWO_SITES = (
    "There are two sites: a sum over both would tell each the other's part, so only bits of tests "
    "can be disclosed, and each site learns the number of rows of the other."
)
"""What two sites mean for privacy, said before a run over them."""


class NewFile(click.Path):
    """The path of a file to write; one that exists is refused unless `OVERWRITE` says otherwise."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; raises ResultExistsError."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.is_file() and not (ctx is not None and ctx.meta.get(_FORCED)):
            raise ResultExistsError(
                f"{path} exists", remedy="Name another file, or overwrite this one with --force."
            )
        return path


NEW_FILE = NewFile(dir_okay=False)
FORCE: dict[str, Any] = {
    "is_flag": True,
    "is_eager": True,  # before the files are looked at
    "expose_value": False,
    "callback": lambda context, _option, forced: context.meta.update({_FORCED: forced}),
    "help": "Overwrite a file that exists.",
}
OVERWRITE = click.option("--force", **FORCE)  # of a command that takes a `NEW_FILE`
in_language = click.option(
    "--language",
    "code",
    type=click.Choice(LANGUAGES),
    help="Of sentences on a plan; the policy's if absent.",
)
PROTECTION = click.Option(
    ["--protection"],
    type=click.Choice(list(PROTECTIONS)),
    default=DEFAULT,
    show_default=True,
    help="Protection of what sites send; none is for debugging only.",
)
SEED = click.Option(
    ["--seed"], type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the run."
)


def _go_live(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Serve the live view until the command ends."""
    if not wanted:
        return
    from cipherdag.cli.live import LiveRun, LiveServer

    run = LiveRun()
    server = context.with_resource(LiveServer(run))
    context.meta[LIVE_RUN] = run
    click.echo(f"Live view: {server.address}", err=True)


LIVE = click.Option(
    ["--live"],
    is_flag=True,
    expose_value=False,
    callback=_go_live,
    help="Show the run in a browser, on this machine only; the address is printed.",
)


def folder_option(from_path: Callable[[Path], Any] = Path) -> click.Option:
    """``--dir``; the command gets what ``from_path`` makes of the path."""
    return click.Option(
        ["--dir", "folder"],
        type=EXISTING_FOLDER,
        default=".",
        show_default="this folder",
        callback=lambda _context, _option, folder: from_path(folder),
        help="Folder of the site or coordinator.",
    )


def out_options() -> list[click.Option]:
    """Options for the destination of a result."""
    return [
        click.Option(["--out"], type=click.Path(path_type=Path), help="Folder for the result."),
        click.Option(["--json", "as_json"], is_flag=True, help="One JSON object per line."),
        click.Option(["--force"], is_flag=True, help="Overwrite a result that is in --out."),
    ]


def run_options() -> list[click.Option]:
    """The options of every run over sites in this process, beside the algorithm's own."""
    return [
        click.Option(["--schema"], type=FILE, help="The study's schema.toml; inferred if absent."),
        PROTECTION,
        click.Option(
            ["--min-cell-size"],
            type=click.IntRange(min=0),
            help="Least pooled count that sites disclose; their policy's if absent.",
        ),
        click.Option(["--device"], default="auto", show_default=True, help="cpu, cuda or auto."),
        SEED,
        *out_options(),
        LIVE,
    ]


@contextmanager
def following(
    *,
    as_json: bool,
    n_sites: int = 0,
    names: Sequence[str] = (),
    most_rounds: int | None = None,
    lines: bool = True,
) -> Iterator[Callable[[RoundReport], None]]:
    """A progress callback that prints one line per round and four for every site that left.

    On a terminal a view of the run stands below the lines while the context lasts; the live view in
    a browser follows, too. Without a terminal, a line on standard error says from time to time that
    a long round still goes on (`SILENCE_S`).

    ``names`` are the variables, for the live view. ``most_rounds`` lets the lines say how much of
    the run is done.
    """
    from cipherdag.cli.terminal import TerminalView, on_terminal

    context = click.get_current_context(silent=True)
    from cipherdag.cli.live import LiveRun

    live: LiveRun = (context.meta.get(LIVE_RUN) if context else None) or LiveRun()
    if as_json:
        yield live.watching(lambda report: click.echo(json.dumps({"round": asdict(report)})), names)
        return
    if not on_terminal():
        with _heartbeat(live):
            yield live.watching(_Lines(live, most_rounds) if lines else lambda _: None, names)
        return
    with TerminalView(live, n_sites, most=most_rounds) as view:
        yield live.watching(view.finished if lines else lambda _: None, names)


def say(line: str) -> None:
    """Print a line while a run goes on, above its view; `click.echo` would write into the view."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class _Lines:
    """Prints the lines of finished rounds, and how much is done where that is known."""

    live: LiveRun
    most: int | None

    def __call__(self, report: RoundReport) -> None:
        from cipherdag.cli.terminal import ahead, report_lines

        state = self.live.state
        pace = (time.monotonic() - state.began) / max(state.rounds, 1)
        lines = report_lines(report, state.label)
        if done := ahead(report.number, self.most, pace):
            lines.append(f"  done    {done}")
        click.echo("\n".join(lines))


@contextmanager
def _heartbeat(live: LiveRun) -> Iterator[None]:
    """Says on standard error that a round still goes on, ever more rarely, while none ends."""
    from cipherdag.cli.terminal import clock

    ended = threading.Event()

    def beat() -> None:
        rounds, pause = 0, SILENCE_S
        while not ended.wait(pause):
            state = live.state
            if state.rounds != rounds:
                rounds, pause = state.rounds, SILENCE_S
                continue
            pause = min(2.0 * pause, LONGEST_SILENCE_S)
            what = f"round {state.round}, {state.label}," if state.round else "the set-up"
            line = f"  {what} goes on; {clock(time.monotonic() - state.began)} since the start"
            click.echo(line, err=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def show(
    result: Run[Any], truth: CausalGraph | None, *, as_json: bool, all_that_left: str = ""
) -> None:
    """Print a result as one JSON object, or in words: doubts, the finding, and its account.

    ``all_that_left`` is the command that says all that left the sites, if there is one yet.
    """
    if as_json:
        click.echo(json.dumps({"result": result.to_dict(truth)}, allow_nan=False))
        return
    concluded = result.finding.lines(len(result.sites))
    click.echo("\n".join([*result.warning_lines(), *concluded]))
    show_account(result, truth, all_that_left)


def show_account(result: Run[Any], truth: CausalGraph | None, all_that_left: str) -> None:
    """Print notes, what a result cost, and in one line what was disclosed."""
    from cipherdag.results.sentences import disclosed_in_brief

    brief = disclosed_in_brief(result.rounds, result.protection)
    command = all_that_left or "cipherdag audit show FOLDER, once --out FOLDER has saved the run"
    click.echo("\n".join([*result.account_lines(truth), brief, f"All that left: {command}"]))


@contextmanager
def outside_a_run(effect: str) -> Iterator[None]:
    """Errors within say this ``effect`` in place of a run's; also a decorator of commands."""
    try:
        yield
    except (PrivacyError, SiteNotReadyError, SiteUnreachableError, DataError) as error:
        if error.effect == type(error).effect:
            error.effect = effect
        raise


_PATTERN = frozenset("*?[")
_TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv")


def site_names(files: Sequence[Path]) -> list[str]:
    """Sites are called like their files, without the endings."""
    names = [file.name.split(".")[0] for file in files]
    if len({file.resolve() for file in files}) != len(files):
        raise ParameterError("a file is given twice", remedy="Give each file once.")
    if len(set(names)) != len(names):
        raise ParameterError(
            "two files have the same name", remedy="Rename one: a site is called like its file."
        )
    return names


def source_files(*, required: bool = True) -> click.Argument:
    """The argument that takes files, folders and patterns, and hands on the files."""
    return click.Argument(
        ["files"],
        nargs=-1,
        required=required,
        type=click.Path(path_type=Path),
        callback=lambda _context, _argument, given: [
            file for each in given for file in _files_of(each)
        ],
    )


def is_source(text: str) -> bool:
    """True if a word names something that exists, a pattern of names, or a file with a suffix."""
    path = Path(text)
    return path.exists() or bool(path.suffix) or bool(_PATTERN.intersection(text))


def _files_of(given: Path) -> Sequence[Path]:
    if given.is_dir():
        return _tables_in(given)
    if given.exists():
        return [given]
    if not _PATTERN.intersection(str(given)):
        raise click.BadParameter(f"there is no file '{given}'")
    files = [Path(each) for each in sorted(glob.glob(str(given))) if Path(each).is_file()]  # noqa: PTH207
    if not files:
        raise click.BadParameter(f"no file has a name like '{given}'")
    return files


def _tables_in(folder: Path) -> Sequence[Path]:
    """The tables of a folder by name; a file that a .toml describes counts as that .toml."""
    if (folder / "result.json").exists():
        raise click.BadParameter(
            f"{folder} holds a result, not tables; repeat it by `cipherdag repeat {folder}`"
        )
    named = dict(_named_sources(folder))
    described = {file for file in named.values() if file is not None}
    tables = [
        file
        for file in sorted(folder.iterdir())
        if file in named or (_is_table(file) and file not in described)
    ]
    if not tables:
        from cipherdag.sites.table.reading import READABLE

        raise click.BadParameter(f"{folder} holds no table: {READABLE}")
    return tables


def _named_sources(folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """Every .toml that names a file or a database, with the file."""
    for path in sorted(folder.glob("*.toml")):
        try:
            table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue  # no source: a schema or a note that somebody is still writing
        if isinstance(file := table.get("file"), str):
            yield path, folder / file
        elif "address" in table:
            yield path, None


def _is_table(file: Path) -> bool:
    from cipherdag.sites.table.reading import SOURCES

    named = {ending for source in SOURCES for ending in (source.suffix, *source.endings)}
    endings = tuple(sorted({*_TEXT_ENDINGS, *named} - {"", ".toml"}))
    return file.is_file() and not file.name.startswith(".") and file.name.lower().endswith(endings)
