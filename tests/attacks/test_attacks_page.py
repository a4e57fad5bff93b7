"""Every test that the page of attacks names exists, and every error that it names too."""

import ast
import re
from functools import cache
from pathlib import Path

from cipherdag import errors

ROOT = Path(__file__).parents[2]
PAGES = ("docs/explanation/attacks.md", "docs/adr/0005-a-session-lives-in-the-site-s-memory.md")
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


@cache
def functions(path):
    return {node.name for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.FunctionDef)}  # fmt: skip


def test_every_test_that_the_page_names_exists():
    named = NAMED.findall((ROOT / PAGES[0]).read_text("utf-8"))
    assert len(named) > 60
    paths = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    for file, name in named:
        assert name in functions(paths[file]), f"{file}::{name}"


def test_every_row_of_the_lies_and_failures_names_a_test():
    text = (ROOT / PAGES[0]).read_text("utf-8")
    tables = text.split("## The required tests")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| lie |", "| event |"))]
    assert len(rows) > 30
    assert all(NAMED.search(row) for row in rows)


def test_every_required_item_names_a_test_or_says_why_there_is_none():
    text = (ROOT / PAGES[0]).read_text("utf-8").split("## The required tests")[1]
    rows = {int(number): row for number, row in re.findall(r"^\| (\d+) (.*)$", text, re.MULTILINE)}
    assert sorted(rows) == list(range(1, 16))
    for row in rows.values():
        assert NAMED.search(row) or "not offered" in row or "the first table" in row


def test_every_error_and_test_that_the_pages_name_exists():
    known = {name for path in (ROOT / "tests").rglob("test_*.py") for name in functions(path)}
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        for name in re.findall(r"`(\w+Error)`", text):
            assert issubclass(getattr(errors, name), errors.CipherdagError)
        assert set(re.findall(r"`(test_\w+)`", text)) <= known
