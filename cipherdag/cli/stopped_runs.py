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
def rounds_folder(out: Path | None) -> Iterator[Path]:
    """The folder of a new run's rounds: ``out``, or a temporary one that only this user may enter.

    Where the run is stopped, or cannot write its result, they stay and the user reads how to resume
    it. Where it fails, they go, since it would fail again.
    """
    folder = out or Path(tempfile.mkdtemp(prefix="cipherdag-run-"))
    try:
        yield folder
    except (KeyboardInterrupt, OutputError):
        if not _say_how_to_resume(folder, RESUME_COMMAND):
            forget(folder, whole=out is None)
        raise
    except CipherdagError:
        forget(folder, whole=out is None)
        raise
    if out is None:
        forget(folder, whole=True)


@contextmanager
def saying_how_to_resume(
    folder: Path, *, command: str = RESUME_COMMAND, parts: Sequence[str] = ("",)
) -> Iterator[None]:
    """Tell the user how to resume what is stopped within; its rounds in ``folder`` stay.

    ``parts`` name the folders of its runs within ``folder``, in their order, if it has several.
    """
    try:
        yield
    except KeyboardInterrupt:
        _say_how_to_resume(folder, command, parts)
        raise


def forget(folder: Path, *, whole: bool) -> None:
    """Remove a run's rounds from a folder, or all it holds, and the folder if then empty."""
    from cipherdag.results.folder import UNFINISHED

    shutil.rmtree(folder if whole else folder / UNFINISHED, ignore_errors=True)
    with suppress(OSError):  # something else lies in it
        folder.rmdir()


def _say_how_to_resume(folder: Path, command: str, parts: Sequence[str] = ("",)) -> bool:
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
