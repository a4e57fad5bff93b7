"""What errors and pages tell people to type exists: commands, options, extras and pages."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from functools import cache

import click
import pytest
from documents import ROOT

from cipherdag.cli.main import cli

COMMAND = re.compile(r"`(cipherdag [^`]+)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+[a-z](?![\w-])")
EXTRA = re.compile(r"cipherdag\[([a-z,]+)\]")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")
OF_OTHERS = {"--extra-index-url", "--constraint"}
"""Options of pip."""


@cache
def texts():
    """Every text of the package, with its place; what is computed in it is an X."""
    found = []
    for path in sorted((ROOT / "cipherdag").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        inner = {id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr)
                 for part in each.values}  # fmt: skip
        for each in ast.walk(tree):
            place = f"{path.relative_to(ROOT)}:{getattr(each, 'lineno', 0)}"
            if isinstance(each, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "X" for p in each.values)
                found.append((place, "".join(parts)))
            elif isinstance(getattr(each, "value", None), str) and id(each) not in inner:
                found.append((place, each.value))
    return found


@cache
def commands():
    """The options of every command by its words, and those of any."""
    found, waiting = {}, [((), cli)]
    while waiting:
        words, command = waiting.pop()
        with click.Context(command) as ctx:
            params = command.get_params(ctx)
            found[words] = {name for each in params for name in each.opts + each.secondary_opts}
            if isinstance(command, click.Group):
                waiting += [
                    ((*words, name), command.get_command(ctx, name))
                    for name in command.list_commands(ctx)
                ]
    return found


def fault(words):
    """Why nobody can type these words; an argument is no fault, nor are words in capitals."""
    named = ()
    for word in words:
        if (*named, word) not in commands():
            break
        named = (*named, word)
    below = {name: options for name, options in commands().items() if name[: len(named)] == named}
    options = set().union(*below.values())
    unknown = [word for word in words if word.startswith("--") and word not in options]
    rest = [word for word in words[len(named) :] if word.islower()]
    if len(below) > 1 and named != ("run",) and rest and not rest[0].startswith("--"):
        unknown.append(rest[0])
    return unknown


def test_every_command_that_a_text_names_exists_with_its_options():
    said = [(place, found) for place, text in texts() for found in COMMAND.findall(text)]
    assert len(said) > 50
    assert not [
        (place, found, unknown)
        for place, found in said
        if (unknown := fault(shlex.split(found.replace("...", ""))[1:]))
    ]


@pytest.mark.parametrize("pattern", [OPTION, EXTRA, PAGE], ids=["option", "extra", "page"])
def test_every_option_extra_and_page_that_a_remedy_names_exists(pattern):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    options = set().union(*commands().values()) | OF_OTHERS
    exists = {
        OPTION: lambda name: name in options,
        EXTRA: lambda names: set(names.split(",")) <= extras["optional-dependencies"].keys(),
        PAGE: lambda name: (ROOT / name).is_file(),
    }[pattern]
    said = [(place, found) for place, text in texts() for found in pattern.findall(text)]
    assert said
    assert not [(place, found) for place, found in said if not exists(found)]
