"""The page on the house is true: every file it names, its picture, and what the gate measures."""

from __future__ import annotations

import re

import architecture
import house_picture
from documents import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FILES = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE.read_text("utf-8"))


def test_every_file_that_the_page_names_is_there():
    assert len(FILES) > 20
    missing = [name for name in FILES if not (ROOT / "cipherdag" / name).exists()]
    missing = [name for name in missing if not (ROOT / name).exists()]
    assert missing == []


def test_the_way_of_a_question_passes_the_rooms_of_the_picture_in_their_order():
    steps = re.findall(
        r"^\d\. (?:`([a-z_]+)/[^`]*`|.*?`([a-z_]+)/)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    rooms = [one or other for one, other in steps]
    assert tuple(rooms[:6]) == house_picture.WAY[:6]
    assert "results/run.py" in FILES


def test_the_picture_is_what_the_import_rules_and_docstrings_say():
    drawn = (ROOT / "docs" / "images" / "house.svg").read_text("utf-8")
    assert drawn == house_picture.picture(), (
        "run: python benchmarks/house_picture.py docs/images/house.svg"
    )


def test_the_house_keeps_its_limits():
    assert architecture.exceeded(architecture.measure()) == []


def test_a_circle_and_an_import_upwards_are_found(tmp_path):
    for name, text in {
        "__init__": "",
        "errors": "def first():\n    from cipherdag.cli import main\n\n\ndef last():\n    pass\n",
        "cli/__init__": "",
        "cli/main": "import cipherdag.errors\nfrom cipherdag.cli import other\n",
        "cli/other": "if True:\n    from cipherdag.cli import main\n",
    }.items():
        path = tmp_path / "cipherdag" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    figures = architecture.measure(tmp_path / "cipherdag")
    assert figures["named"]["circles"] == [["cli", "errors"]]
    assert figures["named"]["circles between files"] == [["cli.main", "cli.other", "errors"]]
    assert [own["source"] for own in figures["named"]["upward imports"]] == ["errors"]
    assert any("circles" in text for text in architecture.exceeded(figures))
