"""Follows what errors advise.

`@pytest.mark.follows("part of a remedy", ...)` says which remedies of the package a test follows.
A plugin sees that errors with these remedies do occur in it. `said` reads what they name.
"""

import re
from functools import cache
from pathlib import Path

import pytest
import remedies

import cipherdag
from cipherdag.errors import CipherdagError

QUOTED = re.compile(r"'([^']+)'")
OPTION = re.compile(r"(--[a-z][a-z-]+)(?: ([a-z][\w-]*))?")
MARK = "follows"


def pytest_configure(config):
    config.addinivalue_line("markers", f"{MARK}(remedy, ...): it follows these remedies")


@pytest.fixture(autouse=True)
def _remedies_occur(request, monkeypatch):
    """The errors whose remedies a test claims to follow do occur in it."""
    parts = [part for mark in request.node.iter_markers(MARK) for part in mark.args]
    if not parts:
        yield
        return
    given, before = set(), CipherdagError.__init__

    def remember(self, *args, **kwargs):
        before(self, *args, **kwargs)
        given.add(self.remedy)

    monkeypatch.setattr(CipherdagError, "__init__", remember)
    yield
    for part in parts:
        meant = [each for each in every_remedy() if of_remedy(part, each.text)]
        assert meant, f"no remedy has the words {part!r}"
        assert any(each.matches(text) for each in meant for text in given), f"{part!r}: {given}"


def of_remedy(part, text):
    """Whether a mark is of a remedy: it is a part of it, or all of it where nothing but a hole."""
    return text == part if part.startswith("{}") else part in text


def case(values, *parts):
    """A value of a parametrized test, or a tuple of them, that follows these remedies with it."""
    values = values if isinstance(values, tuple) else (values,)
    return pytest.param(*values, marks=pytest.mark.follows(*parts))


@cache
def every_remedy():
    return remedies.every_remedy()


def advice(call, *arguments, **keywords):
    """The remedy of the error that a call raises."""
    try:
        call(*arguments, **keywords)
    except CipherdagError as error:
        return error.remedy
    raise AssertionError("nothing was wrong")


def listed(remedy, after=" are "):
    """The values that a remedy lists behind some words, as in "Use one of a, b or c."."""
    return re.split(r", | or | and ", remedy.rstrip(".").partition(after)[2])


def evaluated(code, **names):
    """The value of a piece of Python in a program that has imported the package's names."""
    public = {name: getattr(cipherdag, name) for name in cipherdag.__all__}
    return eval(code, {**public, "Path": Path, **names})
