"""The pages for the data-protection officer: every test that they name exists, no item is lost."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "compliance").glob("*.md"))
NAMED = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")
REASON = re.compile(r"\| (none: \S|as above)")
SATRE_ITEMS = {
    "1.1": 3, "1.2": 12, "1.3": 5, "1.4": 7, "1.5": 6, "1.6": 9, "1.7": 4,
    "2.1": 18, "2.2": 15, "2.3": 4, "2.4": 5, "2.5": 3, "2.6": 5, "2.7": 6, "2.8": 5, "2.9": 1,
    "3.1": 20, "3.2": 6, "3.3": 9, "3.4": 4,
    "4.1": 2, "4.2": 2, "4.3": 3, "4.4": 4, "4.5": 1, "4.6": 1, "4.7": 1, "4.8": 3,
    "5.1": 10, "5.2": 1, "5.3": 2, "5.4": 4, "5.5": 1, "5.6": 2, "5.7": 1,
}  # fmt: skip
"""How many items each capability of SATRE 2.0.1 has."""
TEHDAS2_ITEMS = {
    "SDR": 4, "SPER": 9, "EHDSR": 18, "OPR": 33, "FSPER": 10, "FCR": 9, "TIR": 36,
}  # fmt: skip
"""How many requirements each category in Annex B of TEHDAS2 M7.4 has."""
ARTICLE_73 = ["(1)", *(f"(1)({letter})" for letter in "abcdef"), "(2)", "(3)", "(4)", "(5)"]


def text_of(name):
    return (ROOT / "docs" / "compliance" / f"{name}.md").read_text("utf-8")


def named_tests():
    return sorted({name for page in PAGES for name in NAMED.findall(page.read_text("utf-8"))})


def test_every_test_that_a_page_of_compliance_names_is_written():
    assert len(named_tests()) > 50
    for name in named_tests():
        file, _, test = name.partition("::")
        assert f"\ndef {test}(" in (ROOT / file).read_text("utf-8"), name


@pytest.mark.slow
def test_every_test_that_a_page_of_compliance_names_is_collected():
    words = ["-m", "pytest", "--collect-only", *named_tests()]  # quiet already, by pyproject.toml
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    collected = {line.partition("[")[0] for line in done.stdout.splitlines()}
    assert set(named_tests()) <= collected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_row_names_a_test_or_says_why_there_is_none(page):
    rows, counted = [], False
    for line in page.read_text("utf-8").splitlines():
        if "test that shows" in line:
            counted = True
        elif not line.startswith("|"):
            counted = False
        elif counted and not line.startswith("|---"):
            rows.append(line)
    assert len(rows) > 10
    assert not [row for row in rows if not NAMED.search(row) and not REASON.search(row)]


def spans(text, item):
    """The items that a text names, one by one or as `first to last`; duplicates count."""
    for first, last in re.findall(rf"\b({item})(?: to ({item}))?", text):
        ends = [int(re.split(r"[.-]", end)[-1]) for end in (first, last or first)]
        stem = first[: -len(re.split(r"[.-]", first)[-1])]
        yield from ((stem.rstrip(".-"), number) for number in range(ends[0], ends[1] + 1))


def first_cells(text):
    return "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| "))


def test_every_item_of_satre_stands_in_one_row():
    named = sorted(spans(first_cells(text_of("satre")), r"\d\.\d\.\d\d"))
    assert named == sorted((c, n) for c, most in SATRE_ITEMS.items() for n in range(1, most + 1))
    assert len(named) == 185


def test_every_requirement_of_tehdas2_stands_in_one_row():
    named = sorted(spans(first_cells(text_of("tehdas2")), r"[A-Z]+R-\d+"))
    assert named == sorted((c, n) for c, most in TEHDAS2_ITEMS.items() for n in range(1, most + 1))


def test_every_paragraph_of_article_73_has_a_row():
    rows = first_cells(text_of("ehds"))
    assert all(f" {paragraph}" in rows for paragraph in ARTICLE_73)


def test_the_draft_has_four_parts_and_marks_what_is_to_be_filled_in():
    text = text_of("gdpr")
    for part in "abcd":
        assert re.search(rf"^## \({part}\) ", text, re.MULTILINE)
    blanks = re.findall(r"\[HOSPITAL[^\]]*\]", text)
    assert len(blanks) > 20
    assert text.count("[HOSPITAL") == len(blanks)
