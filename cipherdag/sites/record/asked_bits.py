"""The bits that a site helped to find, by its rows and the cohort: none of them is found again.

    asked.jsonl         a line for every batch of secure tests, as soon as this site signed it or
                        knows both signatures

A plan that asks for such a bit again is answered by the line, without computing. So whoever repeats
a plan, or asks a test again among others, learns nothing new, whatever answers others change.

Leaks:
    Nothing: the record stays at the site. Its lines say what their runs disclosed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cipherdag.errors import SiteNotReadyError
from cipherdag.protocol.asked import Answers, Context, Line
from cipherdag.protocol.durable_files import append_entries, read_entries


class AskedLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line, and the rows that it is about."""

    about: bytes
    line: Line


class AskedBits:
    """The record of one site.

    Args:
        path: File to append to, one JSON object a line, made with mode 0600.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, context: Context) -> Answers:
        """What runs before this one found about these rows.

        Raises:
            SiteNotReadyError: The file cannot be read.
            ForgedSumError: It holds two answers to one question.
        """
        answers = Answers(context)
        for entry in self._entries():
            if entry.about == context.digest and entry.line.run != context.run:
                answers.hold(entry.line)
        return answers

    def write(self, context: Context, line: Line) -> None:
        """Record bits before they leave, or once both holders signed them.

        Raises:
            OutputError: The file cannot be written; then nothing may leave.
        """
        append_entries(self._path, AskedLine(context.digest, line))

    def _entries(self) -> list[AskedLine]:
        try:  # nothing had left where a crash cut the last line short
            return read_entries(self._path, AskedLine)
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(
                f"{self._path.name} cannot be read, so what was asked before is not known",
                remedy="Restore it: it holds which bits this site helped to find.",
            ) from error
