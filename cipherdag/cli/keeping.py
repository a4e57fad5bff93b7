"""What happens to the rounds of a run in this process when it is stopped, fails or ends."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from cipherdag.errors import CipherdagError, OutputError

RESUME_COMMAND = "cipherdag run --resume"


@contextmanager
def keeping(out: Path | None) -> Iterator[Path]:
    """The folder in which a new run keeps its rounds; once stopped, it says how to go on.

    Rounds of a run that was stopped, or whose folder could not be written, stay; those of a run
    that failed go, since it would fail again.

    Without ``out`` it is a temporary one, which only this user may enter.
    """
    folder = out or Path(tempfile.mkdtemp(prefix="cipherdag-run-"))
    try:
        yield folder
    except (KeyboardInterrupt, OutputError):
        if not _say_how(folder, RESUME_COMMAND):
            forget(folder, whole=out is None)
        raise
    except CipherdagError:
        forget(folder, whole=out is None)
        raise
    if out is None:
        forget(folder, whole=True)


@contextmanager
def keeping_on(
    folder: Path, *, command: str = RESUME_COMMAND, parts: Sequence[str] = ("",)
) -> Iterator[None]:
    """While a run that was stopped goes on: once stopped again, it says how to go on.

    ``parts`` are the folders of its runs in there, in their order, where it has several.
    """
    try:
        yield
    except KeyboardInterrupt:
        _say_how(folder, command, parts)
        raise


def forget(folder: Path, *, whole: bool) -> None:
    """Take away what a folder keeps of a run, or all of it; and itself if nothing else is in it."""
    from cipherdag.results.folder import UNFINISHED

    shutil.rmtree(folder if whole else folder / UNFINISHED, ignore_errors=True)
    with suppress(OSError):  # something else lies in it
        folder.rmdir()


def _say_how(folder: Path, command: str, parts: Sequence[str] = ("",)) -> bool:
    """Say where the rounds are kept; False where none had ended."""
    from cipherdag.federation.checkpoint import read_rounds
    from cipherdag.results.folder import REPORT_FILE

    rounds = [round_ for part in parts for round_ in read_rounds(folder / part)]
    ended = sum(round_.summed is not None for round_ in rounds)
    if not ended and not any((folder / part / REPORT_FILE).exists() for part in parts):
        click.echo("\nNo round had ended: nothing is saved.", err=True)
        return False
    sentence = (
        f"Round {ended} had ended, and all rounds so far are saved." if ended else "All is saved."
    )
    click.echo(f"\n{sentence} To go on:\n  {command} {folder}", err=True)
    return True
