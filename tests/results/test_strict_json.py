"""JSON has one meaning: read strictly whoever wrote it, and written so that all can read it."""

import json
from pathlib import Path

import pytest

from cipherdag import CausalGraph
from cipherdag.algorithms.effect.sets import read_sets
from cipherdag.errors import CipherdagError, OutputError
from cipherdag.pages.files import from_json, to_json
from cipherdag.protocol.plan import Plan
from cipherdag.results.folder import json_text

GOLDEN = Path(__file__).parents[1] / "support" / "golden" / "version-0.1.0"
NO_JSON = [
    '{"a": 1, "a": 1}',
    '{"a": {"b": 1, "b": 2}}',
    "[NaN]",
    "[Infinity]",
    "[-Infinity]",
    "[1e999]",
    '["\\ud800"]',
    "[1] [2]",
    "[" * 200_000,
]
READERS = {
    "plan": (Plan.loads, (GOLDEN / "plan.json").read_text("utf-8")),
    "graph": (CausalGraph.loads, CausalGraph.from_edges(["a", "b"], directed=[("a", "b")]).dumps()),
    "sets": (lambda text: read_sets(f"[{text}]"), '{"adjust": ["a"]}'),
}


@pytest.mark.parametrize("text", NO_JSON, ids=lambda text: text[:20])
def test_a_text_of_several_meanings_or_none_is_no_json(text):
    with pytest.raises(ValueError, match=r"\w"):
        from_json(text)


def test_what_is_written_reads_back_as_it_was():
    value = {"name": "Größe", "numbers": [0.1, -3, 1e-300], "none": None}
    assert from_json(to_json(value)) == from_json(to_json(value, indent=2).encode()) == value


def test_a_number_that_is_not_finite_is_not_written():
    with pytest.raises(OutputError, match="not finite") as refused:
        json_text({"estimate": float("nan")})
    assert "bug" in refused.value.remedy


@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_what_names_a_key_twice(name):
    read, text = READERS[name]
    assert read(text)
    key, value = next(iter(json.loads(text).items()))
    with pytest.raises(CipherdagError):
        read(text.rstrip()[:-1] + f", {json.dumps(key)}: {json.dumps(value)}}}")
