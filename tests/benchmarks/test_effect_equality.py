"""Effects and survival over a few random federations are those of other programs on all rows."""

import json
from pathlib import Path

import effect_equality
import numpy as np
import pytest

CLOSE = 1e-6


@pytest.mark.parametrize("kind", effect_equality.DRAWS)
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_every_estimate_and_error_is_that_of_the_other_program(kind, seed):
    rng = np.random.default_rng(seed)
    found = list(effect_equality.DRAWS[kind](rng, masked=seed == 3))
    assert len(found) >= 6 - 4 * (kind == "effects")
    for name, program, off, error in found:
        assert off < CLOSE, (name, program)
        assert error is None or error < CLOSE, (name, program)


def test_the_committed_figures_are_close():
    report = effect_equality_report()
    assert report["federations"] >= 8
    assert len(report["worst"]) > 20
    for own in report["worst"]:
        assert own["estimate"] < CLOSE, own
        assert own["error"] is None or own["error"] < CLOSE, own


def effect_equality_report():
    path = Path(effect_equality.__file__).parent / "results" / "effect_equality.json"
    return json.loads(path.read_text("utf-8"))
