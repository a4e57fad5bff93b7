"""Writes ``docs/errors.md`` from the error tree, so that page and terminal use the same words.

python docs/errors_page.py
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

from cipherdag import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent / "errors.md"
MEANING = {
    0: "ok",
    1: "the run failed",
    2: "wrong usage",
    3: "refused so that nothing leaks",
    4: "a site is not ready",
    5: "a site does not answer",
    6: "data do not fit the schema",
    errors.STOPPED: "stopped by Ctrl-C; `run` and `simulate` say how to go on",
}


def tree(root: type[errors.CipherdagError]) -> Iterator[type[errors.CipherdagError]]:
    """An error and all below it, parents first."""
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


def page() -> str:
    """The page's text."""
    lines = [
        "# Errors",
        "",
        "Every failure says what happened, where, its effect and what to do, and ends with one of",
        "these exit codes. No message ever carries a row, a protected value or a key.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in MEANING.items()),
    ]
    for error in tree(errors.CipherdagError):
        said = inspect.getdoc(error) or ""
        lines += [
            "",
            f"({error.anchor()})=",
            f"## {error.__name__}",
            "",
            " ".join(said.split("Args:")[0].split()).removesuffix(".") + ".",
            "",
            f"- exit code: {error.exit_code}, {MEANING[error.exit_code]}",
            f"- effect: {error.effect}",
            f"- do: {error.default_remedy}",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
