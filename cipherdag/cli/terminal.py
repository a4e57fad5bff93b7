"""Text for a terminal: progress lines, results, what left each site, failures, and a view of a run.

The view stands at the foot of a terminal: sites, round, what left them so far, time. Finished
rounds scroll away above it as the same lines that a pipe gets. When the run ends, the view is taken
away, so that nothing of it stays between the lines.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cipherdag.pages.numerals import counted, size
from cipherdag.privacy.protections import protection_kind
from cipherdag.results.sentences import dropout_lines

if TYPE_CHECKING:
    from cipherdag.algorithms.algorithm import Algorithm
    from cipherdag.cli.live import LiveRun, LiveState
    from cipherdag.errors import CipherdagError
    from cipherdag.protocol.progress import RoundReport

REFRESH_PER_S = 4.0
MOST_NAMES = 8


def heading(algorithm: Algorithm[Any, Any], n_sites: int, protection: str) -> str:
    """The line above the rounds: whether bits may be opened, and what protects sums."""
    bits = "bits in sealed parts, " if any(each.sealed for each in algorithm.disclosures()) else ""
    left = f"{bits}sums {protection_kind(protection).left}"
    return f"{algorithm.title} · {counted(n_sites, 'site')} · {left}"


def report_lines(report: RoundReport, label: str = "") -> list[str]:
    """A line on what was asked, of whom, and what one sent at most; four of each site that left.

    ``label`` says what was asked, where more is at hand than the report says.
    """
    out = max(report.bytes_sent_per_site.values(), default=0)
    line = (
        f"round {report.number:<3} {label or report.label:<56}  "
        f"{report.n_sites} of {report.n_cohort} sites  {report.seconds:5.1f} s  "
        f"at most {size(out):>8} each"
    )
    return [line, *(line for dropout in report.left for line in dropout_lines(dropout))]


def ahead(number: int, most: int | None, seconds_per_round: float) -> str:
    """The share of a run that is done and the time left, where the most rounds are known.

    ``number`` is the last round that ended; rounds took so many seconds on average.
    """
    if most is None or not number:
        return ""
    left = max(most - number, 0)
    share = f"{min(number / most, 1.0):.0%} of at most {most} rounds"
    return f"{share}, {clock(left * seconds_per_round)} left at most" if left else share


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def failure_lines(error: CipherdagError) -> list[str]:
    """The error, its cause, effect and remedy, always in this order."""
    where = f" at site '{error.site}'" if error.site else ""
    return [
        f"{type(error).__name__}{where}.",
        f"  cause   {_cause(error)}",
        f"  effect  {error.effect}",
        f"  do      {error.remedy}    (exit {error.exit_code}, docs: errors#{error.anchor()})",
    ]


def _cause(error: CipherdagError) -> str:
    text = str(error)
    prefix = f"site '{error.site}': "
    return text.replace(prefix, "", 1) if error.site else text


def on_terminal() -> bool:
    """True if standard output is a terminal whose lines can be overwritten."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def view_rows(
    state: LiveState, n_sites: int, now: float, most: int | None = None
) -> list[tuple[str, str]]:
    """The rows of the live view as pairs of a label and its text.

    ``n_sites`` is 0 where it is not known yet; ``now`` is a time of `time.monotonic`; the row
    ``done`` needs the most rounds.
    """
    setting_up = "setting up: the sites agree on keys"
    per_site = f"{state.values} values per site in {state.rounds} rounds"
    elapsed = now - state.began
    done = ahead(state.number, most, elapsed / max(state.rounds, 1))
    return [
        ("sites", _present(state, n_sites)),
        ("round", f"{state.round}  {state.label}" if state.round else setting_up),
        ("released", f"{per_site}, {size(sum((state.sent or {}).values()))} by all sites"),
        *([("done", done)] if done else []),
        ("elapsed", clock(elapsed)),
    ]


class TerminalView:
    """Shows a run until it ends; a context manager.

    ``n_sites`` is 0 where it is not known yet; by default it draws on standard output.
    """

    def __init__(
        self, run: LiveRun, n_sites: int, *, console: Console | None = None, most: int | None = None
    ) -> None:
        self._run = run
        self._most = most
        self._n_sites = n_sites
        self._console = console or Console()
        self._live = Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def finished(self, report: RoundReport) -> None:
        """A round is finished: its line goes above the view."""
        for line in report_lines(report, self._run.state.label):
            self._console.print(Text(line), soft_wrap=True)

    def _drawn(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        rows = view_rows(self._run.state, self._n_sites, time.monotonic(), self._most)
        for word, text in rows:
            table.add_row(word, Text(text))  # as it stands: a name is no markup
        return table


def _present(state: LiveState, n_sites: int) -> str:
    if not state.n_cohort:
        count = f"{n_sites} in the run; " if n_sites else ""
        return f"{count}none has answered yet"
    here = [*state.present[:MOST_NAMES], *(["..."] if state.present[MOST_NAMES:] else [])]
    gone = [name for name in state.sent or () if name not in state.present]
    left = f"; gone: {', '.join(gone)}" if gone else ""
    return f"{len(state.present)} of {state.n_cohort} online: {', '.join(here)}{left}"
