"""The page on the house is true: every file it names, its picture, and what the gate measures."""

import re
import sys
from itertools import groupby, pairwise
from pathlib import Path

import architecture
import house_picture
import numpy as np
import pandas as pd
from documents import ROOT

from cipherdag import Federation, FedPC
from cipherdag.federation import in_process
from cipherdag.program.program import SharedProgram

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FILES = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE.read_text("utf-8"))


def test_every_file_that_the_page_names_is_there():
    assert len(FILES) > 20
    missing = [name for name in FILES if not (ROOT / "cipherdag" / name).exists()]
    missing = [name for name in missing if not (ROOT / name).exists()]
    assert missing == []


def test_a_question_passes_the_rooms_in_the_order_of_the_picture():
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


class Unshared(SharedProgram):
    """Coordinator and sites go through a run of their own each, as in processes of their own."""

    def __call__(self, plan, facts):
        self._program = None
        return SharedProgram.__call__(self, plan, facts)


def rooms_down_to_here():
    """The rooms that the calls under way came through, from the first to this one."""
    frame, rooms = sys._getframe(1), []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(architecture.PACKAGE):
            rooms.append(path.relative_to(architecture.PACKAGE).parts[0])
        frame = frame.f_back
    return tuple(room for room, _ in groupby(reversed(rooms)))


def test_the_way_from_a_run_into_its_algorithm_is_short(monkeypatch):
    ways, honest = set(), FedPC.ask

    def ask(self, facts):
        ways.add((*rooms_down_to_here(), "algorithms"))
        return (yield from honest(self, facts))

    monkeypatch.setattr(FedPC, "ask", ask)
    monkeypatch.setattr(in_process, "SharedProgram", Unshared)
    rng = np.random.default_rng(0)
    data = pd.DataFrame({name: rng.integers(0, 2, 200) for name in "abc"})
    Federation.split(data, 3).run(FedPC())
    at_the_coordinator, at_a_site = sorted(ways, key=len)
    assert at_the_coordinator == ("federation", "program", "algorithms")
    assert set(at_a_site) == {"federation", "program", "protocol", "sites", "algorithms"}
    assert len(at_a_site) <= 8
    floor = architecture.floors()
    climbs = [pair for pair in pairwise(at_a_site) if floor[pair[1]] < floor[pair[0]]]
    assert climbs == [("protocol", "federation")]
