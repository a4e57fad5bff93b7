"""Every rule by which an algorithm is chosen for a graph is reached, and the page has it."""

import pytest
from documents import ROOT

from cipherdag.algorithms.choice import RULES, Circumstances, choose
from cipherdag.algorithms.registry import ALGORITHMS

CASES = [
    ({"kind": "continuous", "n_sites": 3, "visits": True}, 0),
    ({"kind": "mixed", "n_sites": 3, "overlapping": True}, 1),
    ({"kind": "continuous", "n_sites": 2}, 2),
    ({"kind": "mixed", "n_sites": 3, "incomplete": 0.06}, 3),
    ({"kind": "continuous", "n_sites": 3, "incomplete": 0.05}, 4),
    ({"kind": "mixed", "n_sites": 3}, 5),
    ({"kind": "discrete", "n_sites": 10}, 5),
]


@pytest.mark.parametrize(("facts", "number"), CASES)
def test_the_first_rule_that_applies_decides(facts, number):
    assert choose(Circumstances(**facts)) is RULES[number]


def test_every_rule_is_tried_and_names_an_algorithm():
    assert {number for _, number in CASES} == set(range(len(RULES)))
    assert all(rule.algorithm in ALGORITHMS for rule in RULES)


def test_the_page_has_the_rules_in_their_order():
    page = (ROOT / "docs" / "howto" / "choose-an-algorithm.md").read_text("utf-8")
    lines = "\n".join(f"- `{rule.algorithm}`: {rule.reason}" for rule in RULES)
    assert lines in page
