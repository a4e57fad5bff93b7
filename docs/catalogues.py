"""Keeps the catalogues of the approval's languages to the messages that the sources have.

    python docs/catalogues.py [--check]

A new message is added to every ``.po`` without a translation, one that no source has goes, and each
``.mo`` is compiled anew. It ends with 1 where a message is not translated or loses a placeholder;
with ``--check`` nothing is written, and it also ends with 1 where a file would change.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from cipherdag.algorithms.parameters import options_of
from cipherdag.algorithms.registry import algorithm_class, algorithm_names
from cipherdag.pages.language import COMPOSED, LANGUAGES
from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.questions.disclosure import Audience, Quantity
from cipherdag.questions.question import question_kinds
from cipherdag.sites.record.ledger import LABEL_POSITIONS, RELATIONS, RELEASE_KINDS, SAME_ROWS
from cipherdag.sites.table.names import ALPHABETS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "cipherdag"
CATALOGUES = PACKAGE / "pages" / "catalogues"
TRANSLATED = tuple(code for code in LANGUAGES if code != "en")
SAY = "say"
_PLACEHOLDER = re.compile(r"\{(\w+)(:,)?\}")

Message = str | tuple[str, str]
"""A message, or its forms for one and for many."""


@cache
def messages() -> tuple[Message, ...]:
    """Every message of the sources, once."""
    return tuple(dict.fromkeys([*_written(), *_declared(), *COMPOSED]))


def _written() -> Iterator[Message]:
    """The messages that the package's modules hand to `Language`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        if SAY not in text:
            continue
        tree = ast.parse(text)
        constants = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield from _said(node, constants)


def _said(call: ast.Call, constants: dict[str, ast.expr]) -> Iterator[Message]:
    counted = isinstance(call.func, ast.Attribute) and call.func.attr == "counted"
    named = call.func.value if isinstance(call.func, ast.Attribute) and counted else call.func
    if not isinstance(named, ast.Name) or named.id != SAY:
        return
    texts = []
    for given in call.args[: 1 + counted]:
        value = constants.get(given.id, given) if isinstance(given, ast.Name) else given
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            texts.append(value.value)
    if counted:
        yield texts[0], texts[1]
    else:
        yield from texts


def _declared() -> Iterator[Message]:
    """The messages that are values of types, or stand in what an algorithm declares."""
    yield from (each.value for each in Quantity)
    asked = (each for kind in question_kinds().values() for each in kind.discloses)
    yield from sorted({str(each.heading) for each in asked} | {Audience.COORDINATOR.value})
    yield from (kind.left for kind in PROTECTIONS.values())
    yield SAME_ROWS
    yield from (RELEASE_KINDS[kind].phrase for kind in (LABEL_POSITIONS, RELATIONS))
    yield from sorted(each.title() for each in ALPHABETS)
    for algorithm in map(algorithm_class, algorithm_names()):
        yield from filter(None, [algorithm.concludes.promise])
        yield from (each.help for each in options_of(algorithm).values())


class _Undated(Catalog):
    """A catalogue whose header says nothing but what readers need, and so is the same every day."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Language", str(self.locale)),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
            ("Plural-Forms", self.plural_forms),
        ]


def fresh(code: str) -> tuple[Catalog, bytes, bytes]:
    """A language's catalogue with the messages of the sources alone, and both its files."""
    with (CATALOGUES / f"{code}.po").open("rb") as file:
        old = read_po(file, locale=code)
    new = _Undated(locale=code, charset="utf-8", fuzzy=False)
    new.header_comment = "# The approval of a plan; docs/catalogues.py keeps it to the sources."
    for message in messages():
        same = old.get(message)
        plural = ("",) * new.num_plurals
        new.add(message, same.string if same else plural if isinstance(message, tuple) else "")
    text, compiled = io.BytesIO(), io.BytesIO()
    write_po(text, new, width=100)
    write_mo(compiled, new)
    return new, text.getvalue(), compiled.getvalue()


def faults(catalogue: Catalog) -> Iterator[str]:
    """The messages of a catalogue that are not translated, or lose or gain a placeholder."""
    for message in catalogue:
        if not message.id:
            continue
        ids = message.id if isinstance(message.id, tuple) else (message.id,)
        strings = message.string if isinstance(message.string, tuple) else (message.string,)
        needed = {*_PLACEHOLDER.findall(ids[0])} & {*_PLACEHOLDER.findall(ids[-1])}
        allowed = {each for text in ids for each in _PLACEHOLDER.findall(text)}
        for string in strings:
            used = {*_PLACEHOLDER.findall(string)}
            if not string.strip():
                yield f"not translated: {ids[0]}"
            elif not needed <= used <= allowed or {*map(string.count, "{}")} != {
                len(_PLACEHOLDER.findall(string))  # no other field, such as of an attribute
            }:
                yield f"other placeholders: {ids[0]} -> {string}"


def main() -> int:
    """Write the catalogues, or compare them."""
    wrong = False
    for code in TRANSLATED:
        catalogue, text, compiled = fresh(code)
        for name, content in ((f"{code}.po", text), (f"{code}.mo", compiled)):
            path = CATALOGUES / name
            if path.exists() and path.read_bytes() == content:
                continue
            if "--check" in sys.argv:
                click.echo(f"{name} says something else: python docs/catalogues.py")
                wrong = True
            else:
                path.write_bytes(content)
        for fault in faults(catalogue):
            click.echo(f"{code}.po: {fault}")
            wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
