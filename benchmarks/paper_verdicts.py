"""How a figure of ours stands to a paper's, and where ours are: the pieces of the papers' page."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

VERDICTS = ("better", "alike", "worse")
RESULTS = Path(__file__).parent / "results"


def results(name: str) -> dict:
    """A result file."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def counted(found: list[str]) -> str:
    """`better 3, worse 1`, of verdicts."""
    counts = Counter(found)
    return ", ".join(f"{name} {counts[name]}" for name in VERDICTS if counts[name])


def standing(theirs: float, low: float, high: float) -> str:
    """How ours, from low to high, stands to a figure of which less is better."""
    if theirs > high:
        return "better"
    return "worse" if theirs < low else "alike"
