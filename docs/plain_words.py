"""How plain the words are: words a sentence, passives without an agent, words that nobody knows.

    python docs/plain_words.py [PAGE ...]

prints a line for every page, the help of the command line and the errors' remedies, then what
exceeds the bounds; it ends with 1 if anything does. Code is left out. Cells of tables and items
without a full stop count for the longest sentence, not for the mean.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
MOST_ON_AVERAGE, MOST = 18.0, 40
GLOSSARY = Path("docs/glossary.md")
EXEMPT = (GLOSSARY, Path("docs/errors.md"), Path("docs/reference"), Path("docs/adr"))
"""Pages that are built from the code, and records of decisions with the words of their day."""
PRIVATE = re.compile(
    r"\b(told|own|alike|moved|beside|apart|blur(?:s|red)?|cohorts?|verdicts?|nats?|of which)\b",
    re.IGNORECASE,
)
REJECTED = re.compile(
    r"\b(undone|twins?|turn(?:s|ed) round|shut(?:s|ting)?\b[^.;]{0,20}\bout|configurations? of S"
    r"|(?:tests?|models?|scor(?:es?|ing)|regressions?) within (?:the )?sites"
    r"|opened (?:bits?|sums?|scores?|numbers?|votes|p-values)|opens (?:bits?|sums?)"
    r"|(?:is|are|was|were) opened(?! read-only))\b",
    re.IGNORECASE,
)
"""For what the glossary calls inconclusive, reversed, revoke, stratum, stratified, disclose."""
PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being)\s+(?:\w+ly\s+)?\w+(?:ed|en|wn|ught|pt|lt)\b(?!\s+by\b)",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9`])|(?<=[.!?])\s+(?=[a-z][\w'-]*:? )")
_NO_END = re.compile(r"\b(e\.g|i\.e|vs|cf|et al|Fig|Eq|Sec|Dr|No|approx)\.$")
_WORD = re.compile(r"[^\W_][\w'.,%/-]*")
_CODE = "code"


@dataclass(frozen=True)
class Sentence:
    """One sentence, whether it counts for the mean, and its words."""

    text: str
    whole: bool

    @property
    def n_words(self) -> int:
        """Number of words; a piece of code is one."""
        return len(_WORD.findall(self.text))


def sentences(text: str, *, whole: bool = True) -> Iterator[Sentence]:
    """The sentences of a paragraph; one without a full stop is part of a list or a table."""
    part = ""
    for piece in _END.split(text):
        part = f"{part} {piece}".strip()
        if part and not _NO_END.search(part):
            yield Sentence(part, whole and part[-1] in ".!?:;)\"'")
            part = ""
    if part:
        yield Sentence(part, whole=False)


def of_markdown(text: str) -> Iterator[Sentence]:
    """The sentences of a page, without its code, headings and directives."""
    text = re.sub(r"^\([\w-]+\)=$", "", text, flags=re.MULTILINE)
    in_table = in_heading = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        in_heading = in_heading if token.type == "inline" else token.type == "heading_open"
        in_table = {"table_open": True, "table_close": False}.get(token.type, in_table)
        if token.type == "inline" and not in_heading:
            yield from sentences(_prose(token), whole=not in_table)


def _prose(token: Token) -> str:
    words = {"text": lambda each: each.content, "code_inline": lambda _: _CODE}
    breaks = {"softbreak": " ", "hardbreak": " "}
    return "".join(
        words[each.type](each) if each.type in words else breaks.get(each.type, "")
        for each in token.children or ()
    )


def of_command_line() -> Iterator[Sentence]:
    """The sentences of all help."""
    from cipherdag.cli.main import cli

    waiting: list[click.Command] = [cli]
    for command in waiting:
        if isinstance(command, click.Group):
            with click.Context(command) as ctx:
                names = command.list_commands(ctx)
                waiting += [each for name in names if (each := command.get_command(ctx, name))]
        options = (each for each in command.params if isinstance(each, click.Option))
        for paragraph in (
            *re.split(r"\n\s*\n", command.help or ""),
            *(o.help or "" for o in options),
        ):
            if "\b" not in paragraph:
                yield from sentences(" ".join(paragraph.split()))


def of_remedies() -> Iterator[Sentence]:
    """The sentences of every remedy of an error, with a piece of code for what is put in."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from remedies import HOLE, every_remedy

    for remedy in every_remedy():
        yield from sentences(remedy.text.replace(HOLE, _CODE))


def pages() -> list[Path]:
    """Every page that a person writes, from the repository's root."""
    here = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md"))
    found = (path.relative_to(ROOT) for path in here if "_build" not in path.parts)
    return sorted(path for path in found if not any(path.is_relative_to(own) for own in EXEMPT))


def faults(name: str, read: list[Sentence]) -> Iterator[str]:
    """Print a page's line; gives what exceeds the bounds."""
    counts = [each.n_words for each in read if each.whole and each.n_words]
    mean = sum(counts) / max(1, len(counts))
    longest = max((each.n_words for each in read), default=0)
    private = [
        (found[0], each.text)
        for each in read
        for words in (PRIVATE, REJECTED)
        for found in words.finditer(each.text)
    ]
    passives = sum(len(PASSIVE.findall(each.text)) for each in read)
    words = sum(each.n_words for each in read)
    click.echo(f"{name:48} {words:6} {mean:6.1f} {longest:6} {passives:6} {len(private):6}")
    if mean > MOST_ON_AVERAGE:
        yield f"{name}: {mean:.1f} words a sentence, not {MOST_ON_AVERAGE:.0f}"
    for each in read:
        if each.n_words > MOST:
            yield f"{name}: a sentence of {each.n_words} words: {each.text}"
    for word, text in private:
        yield f"{name}: '{word}': {text}"


def main(*names: str) -> int:
    """Check some pages, or all of them and the command line; returns the exit code."""
    click.echo(f"{'':48} {'words':>6} {'mean':>6} {'most':>6} {'passiv':>6} {'private':>6}")
    wrong: list[str] = []
    for path in [Path(name) for name in names] or pages():
        wrong += faults(str(path), list(of_markdown((ROOT / path).read_text("utf-8"))))
    if not names:
        wrong += faults("cipherdag --help", list(of_command_line()))
        wrong += faults("remedies of errors", list(of_remedies()))
    click.echo("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
