"""What pages say of the field's table, and what its worlds are."""

import json
from pathlib import Path

import field
import numpy as np
import pytest

ROOT = Path(field.__file__).parents[1]
FIGURES = json.loads((ROOT / "benchmarks/results/field.json").read_text("utf-8"))


@pytest.mark.parametrize("page", ["README.md", "docs/howto/choose-an-algorithm.md"])
def test_the_first_choice_is_advised_by_the_worlds_measured(page):
    held, others = field.first_choice(FIGURES["cases"])
    assert len(held) > 2 * len(others)
    said = (ROOT / page).read_text("utf-8")
    assert f"in {len(held)} of {len(held) + len(others)} worlds" in said


def test_a_first_choice_may_have_one_error_more_in_the_median():
    def cases(name, revision, *errors):
        of = {"data": name, "revision": revision}
        return [
            of | {"method": method, "shd_cpdag": shd}
            for method, row in zip(("FedBOSS", "FedPC"), errors, strict=True)
            for shd in row
        ]

    figures = [
        *cases("alarm, alike", "1", [9, 3, 2], [2, 2, 0]),
        *cases("insurance, alike", "1", [9, 4, 2], [2, 2, 9]),
        *cases("win95pts, alike", "1", [9, 9], [0, 0]),  # too few samples
    ]
    assert field.first_choice(figures) == (["alarm, alike"], ["insurance, alike"])


@pytest.mark.parametrize("name", [*field.ADDITIVE, field.CURVES])
@pytest.mark.parametrize("world", field.WORLDS[:2])
def test_new_worlds_have_a_truth_and_depend_along_its_edges(name, world):
    tables, schema, truth = field.drawn(f"{name}, {world}", ROOT, 1)
    assert schema is None
    assert len(tables) == field.MIXED_SITES
    assert len(truth.nodes) == 12
    assert 15 < len(truth.edges) < 30
    again, _, same = field.drawn(f"{name}, {world}", ROOT, 1)
    assert same == truth
    assert all(again[site].equals(tables[site]) for site in tables)
    if name in field.ADDITIVE:
        for table in tables.values():
            assert table.nunique().max() <= 3
    else:
        first = next(iter(tables.values()))
        assert np.isfinite(first.to_numpy()).all()
