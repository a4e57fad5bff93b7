"""Advice can be followed: what the package's texts name to type or to read does exist."""

import ast
import re
import tomllib
from pathlib import Path

import click
import pytest
from documents import ROOT

from cipherdag.cli.main import cli

COMMAND = re.compile(r"`cipherdag ([^`]+)`")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*[a-z])\b(?!-)")
EXTRA = re.compile(r"cipherdag\[([a-z,]+)\]")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")
ELSEWHERE = frozenset(("--index-url", "--extra-index-url", "--constraint", "--no-index"))
"""Options of pip."""


def texts(file):
    """The texts in a file with X for what is put into them, without docstrings."""
    tree = ast.parse(file.read_text("utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
        for part in node.values
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in said | inner:
            yield str(node.value)


def options_of(command):
    context = click.Context(command)
    taken = command.get_params(context)
    return {name for each in taken for name in (*each.opts, *each.secondary_opts, "--help")}


def named(words):
    """The command that words name, and its options; None where they name none."""
    command = cli
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        if found is None:
            stands_for_any = word.isupper() or word.startswith("-") or word in ("...", "X")
            return command if stands_for_any else None
        command = found
    return command


def every(command):
    yield from options_of(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from every(command.get_command(click.Context(command), name))


ALL = frozenset(every(cli))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FILES = sorted((ROOT / "cipherdag").rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_text_names_exists(file: Path):
    for text in texts(file):
        for line in COMMAND.findall(text):
            words = line.split()
            command = named(words)
            assert command is not None, f"`cipherdag {line}`"
            options = options_of(command) if not isinstance(command, click.Group) else ALL
            for option in OPTION.findall(line):
                assert option in options, f"`cipherdag {line}` has no {option}"
        for option in OPTION.findall(text):
            assert option in ALL | ELSEWHERE, f"{option} in {text!r:.200}"
        for extras in EXTRA.findall(text):
            assert set(extras.split(",")) <= EXTRAS["optional-dependencies"].keys(), extras
        for page in PAGE.findall(text):
            assert (ROOT / page).is_file(), page
