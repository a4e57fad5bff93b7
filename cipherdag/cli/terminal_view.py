"""A run as it goes on, at the foot of a terminal: sites, round, what left them so far, time.

Finished rounds scroll away above it as the same lines that a pipe gets. When the run ends, the view
is taken away, so that nothing of it stays between the lines.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cipherdag.cli.live import LiveRun, LiveState
from cipherdag.cli.terminal import ahead, clock, report_lines
from cipherdag.pages.numerals import size
from cipherdag.protocol.progress import RoundReport

REFRESH_PER_S = 4.0
MOST_NAMES = 8


def on_terminal() -> bool:
    """Whether standard output is a terminal that can take its lines back."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def view_rows(
    state: LiveState, n_sites: int, now: float, most: int | None = None
) -> list[tuple[str, str]]:
    """What the view says, as pairs of a word and its text.

    Args:
        state: The run as it stands.
        n_sites: How many sites it began with, if that is known already; else 0.
        now: The time, as `time.monotonic`.
        most: Most rounds of the run, if that is known; the row ``done`` needs it.
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

    Args:
        run: Follows the run.
        n_sites: How many sites it begins with, if that is known already; else 0.
        console: Where to draw; standard output by default.
        most: Most rounds of the run, if that is known.
    """

    def __init__(
        self,
        run: LiveRun,
        n_sites: int,
        *,
        console: Console | None = None,
        most: int | None = None,
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
        for line in report_lines(report):
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
        known = f"{n_sites} in the run; " if n_sites else ""
        return f"{known}none has answered yet"
    here = [*state.present[:MOST_NAMES], *(["..."] if state.present[MOST_NAMES:] else [])]
    gone = [name for name in state.sent or () if name not in state.present]
    left = f"; gone: {', '.join(gone)}" if gone else ""
    return f"{len(state.present)} of {state.n_cohort} online: {', '.join(here)}{left}"
