"""One line that rewrites itself while a run lasts, in the cell of a notebook or in a terminal.

Leaks:
    Nothing new: the rounds, their costs and who answered are what `RoundReport` has.
"""

import sys
from typing import TextIO

from cipherdag.pages.numerals import counted, size
from cipherdag.protocol.progress import RoundReport
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Question
from cipherdag.results.sentences import dropout_line


class ProgressLine:
    """Shows the round of a run, as in ``federation.run(FedPC(), progress=ProgressLine())``.

    A site that leaves the run gets a line that stays. By default it writes on standard output.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._width = 0
        self._sent = 0
        self._seconds = 0.0

    def asked(self, number: int, question: Question, shown: Presence | None) -> None:
        """A round begins: show its number and what every site is asked."""
        del shown
        self._rewrite(f"round {number}: {question.label} ... {self._so_far}")

    def __call__(self, report: RoundReport) -> None:
        """A round is finished: show what all rounds took so far."""
        for dropout in report.left:
            self._rewrite(dropout_line(dropout))
            self._write("\n")
            self._width = 0
        self._sent += max(report.bytes_sent_per_site.values(), default=0)
        self._seconds += report.seconds
        sites = counted(report.n_sites, "site")
        self._rewrite(f"round {report.number}: {report.label}, {sites} answered. {self._so_far}")

    @property
    def _so_far(self) -> str:
        return f"{self._seconds:.1f} s, {size(self._sent)} per site so far"

    def _rewrite(self, text: str) -> None:
        self._write(f"\r{text.ljust(self._width)}")
        self._width = len(text)

    def _write(self, text: str) -> None:
        out = self._out or sys.stdout
        out.write(text)
        out.flush()
