"""Each of Zhang's rules on a smallest graph on which no other rule puts a mark.

`tests/graphs/test_ancestral.py` compares whole PAGs with the definition. There rules may stand in
for one another, so that one of them could be missing.
"""

import numpy as np
import pytest

from cipherdag.graphs.ancestral.orientation import RULES, Grounds, Requests, apply_zhang_rules
from cipherdag.graphs.pag import PartialMixedGraph

# The rule, all edges before, those that it changes as they are then, and what separates c and t.
CASES = [
    # b is no collider and has an arrowhead from a, so that it is a cause of c
    (1, "a o-> b, b o-o c", "b --> c", ""),
    # were c a cause of a, it would cause b, against the arrowhead at c
    (2, "a --> b, b o-> c, a o-o c", "a o-> c", ""),
    # were c a cause of a, so would b be, against the arrowhead at b
    (2, "a o-> b, b --> c, a o-o c", "a o-> c", ""),
    # t is no collider, so a cause of a or c; were b a cause of t, it would cause one of them
    (3, "a o-> b, c o-> b, a o-o t, c o-o t, b o-o t", "t o-> b", ""),
    # a and b separate t and c, which b as a collider would connect
    (4, "t o-> a, b o-> a, a --> c, b o-> c", "b --> c", "ab"),
    # a without b separates t and c, which b as no collider would connect
    (4, "t o-> a, b o-> a, a --> c, b o-> c", "a <-> b, b <-> c", "a"),
    # nothing collides on the cycle, so that from one arrowhead it would be directed all around
    (5, "a o-o b, b o-o c, c o-o t, a o-o t", "a --- b, b --- c, c --- t, a --- t", ""),
    # b has an undirected edge, and such a variable has no arrowhead
    (6, "a --- b, b o-o c", "c o-- b", ""),
    # b is no collider; with an arrowhead from c it would have a --- b, and so none
    (7, "b o-- a, b o-o c", "c o-- b", ""),
    # a causes b and b causes c
    (8, "a --> b, b --> c, a o-> c", "a --> c", ""),
    # a causes b, and by it c, or a selection variable: an arrowhead at a would deny both
    (8, "b o-- a, b --> c, a o-> c", "a --> c", ""),
    # an arrowhead at a would make a --> b --> t --> c, by which a is a cause of c
    (9, "a o-> c, a o-o b, b o-o t, t --> c", "a --> c", ""),
    # a is no collider between b and t, so a cause of one of them, and by it of c
    (10, "a o-o b, a o-o t, b --> c, t --> c, a o-> c", "a --> c", ""),
]
NAMES = "abct"
ABOUT_SELECTION = {5, 6, 7}
ABOUT_ANCESTORS = {1, 2, 3, 8}


def marks_of(edges):
    triples = [(first, second, mark) for first, mark, second in map(str.split, edges.split(", "))]
    return PartialMixedGraph.from_marked(NAMES, triples).endpoints


@pytest.mark.parametrize(("number", "edges", "changed", "sepset"), CASES)
def test_a_rule_alone_puts_its_marks_and_no_other_does(number, edges, changed, sepset):
    before, new = marks_of(edges), marks_of(changed)
    after = np.where(new, new, before)
    sets = {(2, 3): frozenset(map(NAMES.index, sepset))}
    for other, rule in enumerate(RULES, start=1):
        requests, marks = Requests.none(before), before.copy()
        rule(before, Grounds(sets), requests)
        requests.put(marks)
        assert (marks == (after if other == number else before)).all(), other
    plain = before if number in ABOUT_SELECTION else after
    assert (apply_zhang_rules(before, Grounds(sets)) == after).all()
    assert (apply_zhang_rules(before, Grounds(sets), selection=False) == plain).all()
    # where not all was measured together: no edge is doubtful, then all are
    for doubtful in (np.zeros_like(before, dtype=bool), before > 0):
        rests = number in ABOUT_ANCESTORS and not doubtful.any()
        found = apply_zhang_rules(before, Grounds(sets, doubtful=doubtful))
        assert (found == (after if rests else before)).all()


def test_every_rule_has_a_case():
    assert {number for number, *_ in CASES} == set(range(1, len(RULES) + 1))
