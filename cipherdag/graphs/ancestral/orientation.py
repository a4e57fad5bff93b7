"""From a skeleton and separating sets to a PAG: colliders, then Zhang's rules 1 to 10.

Every rule looks at the graph as it stands and asks for marks; only circles become marks, and a
circle of which one pass of a rule asks for an arrowhead and a tail both stays. So the order of the
variables decides nothing. A triple of which it is not known whether its middle is a collider is no
ground for a rule.

Source: Zhang, "On the completeness of orientation rules for causal discovery in the presence of
latent confounders and selection bias", Artificial Intelligence 172 (2008), sections 3 and 4.

Leaks:
    Nothing: the graph and the separating sets are already the coordinator's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.ancestral.paths import Uncovered, discriminating, possibly_directed
from cipherdag.graphs.dags import members
from cipherdag.graphs.endpoints import (
    ARROW,
    CIRCLE,
    NONE,
    TAIL,
    Endpoints,
    bits,
    directed,
    non_adjacent,
)
from cipherdag.graphs.orientation import Triple, compose

DOUBTFUL = 4
"""No mark of a graph: while rules are applied, that an edge may not be there."""
Sepsets = Mapping[tuple[int, int], frozenset[int]]
"""Separating sets by pair (x, z), x < z."""


@dataclass(slots=True)
class Asked:
    """The marks that a rule asks for, each of shape (p, p); [i, j] is the end at j.

    Attributes:
        arrows: Arrowheads.
        tails: Tails.
    """

    arrows: BoolMatrix
    tails: BoolMatrix

    @classmethod
    def nothing(cls, marks: Endpoints) -> Asked:
        """No mark."""
        return cls(np.zeros(marks.shape, dtype=bool), np.zeros(marks.shape, dtype=bool))

    def out_of(self, b: int, c: int) -> None:
        """Ask for b --> c."""
        self.arrows[b, c] = self.tails[c, b] = True

    def put(self, marks: Endpoints) -> None:
        """Put them where there are circles and both kinds are not asked for."""
        clear = (marks == CIRCLE) & ~(self.arrows & self.tails)
        marks[clear & self.arrows] = ARROW
        marks[clear & self.tails] = TAIL


@dataclass(frozen=True, slots=True)
class Grounds:
    """What the rules rest on beside the graph.

    Attributes:
        sepsets: Separating sets of the pairs that are not adjacent, for rule 4.
        ambiguous: Unshielded triples (x, y, z), x < z, that rules do not rest on.
        paths: Discriminating paths that rule 4 may rest on; None for all whose sets fit them.
        doubtful: Where not all variables were measured together, the edges of which it is not known
            whether they are there, shape (p, p), symmetric: their marks stay, and no rule rests on
            them, nor on two variables being apart that such an edge joins. An edge that was tested
            may be one among fewer variables than another, so that only rules are applied that rest
            on what is an ancestor of what, 1, 2, 3 and 8. None where all were.
    """

    sepsets: Sepsets = field(default_factory=dict)
    ambiguous: Collection[Triple] = ()
    paths: Collection[tuple[int, ...]] | None = None
    doubtful: BoolMatrix | None = None

    def told(self, x: int, y: int, z: int) -> bool:
        """Whether it is known of the triple what its middle is."""
        return (min(x, z), y, max(x, z)) not in self.ambiguous


Rule = Callable[["Endpoints", Grounds], Asked]


def with_colliders(marks: Endpoints, triples: Iterable[Triple]) -> Endpoints:
    """Rule 0: x *-> y <-* z for every one of some unshielded triples (x, y, z); a copy."""
    asked = Asked.nothing(marks)
    for x, y, z in triples:
        asked.arrows[[x, z], y] = True
    found = marks.copy()
    asked.put(found)
    return found


def completed(marks: Endpoints, grounds: Grounds, *, selection: bool = True) -> Endpoints:
    """Every mark that the rules find, with those of the graph; a copy.

    Args:
        marks: A graph with its colliders, shape (p, p).
        grounds: What the rules rest on beside it.
        selection: Whether variables may stand behind which rows there are; without, no edge has a
            tail at both ends, and rules 5 to 7 are left out.

    Raises:
        GraphError: Rule 4 needs a separating set that is not given.
    """
    rules = [_rule_1, _rule_2, _rule_3, _rule_4]
    rules += [_rule_5, _rule_6, _rule_7] if selection else []
    rules += [_rule_8, _rule_9, _rule_10]
    found = marks.copy()
    if grounds.doubtful is not None:
        rules = [_rule_1, _rule_2, _rule_3, _rule_8]
        found[grounds.doubtful] = DOUBTFUL
    while True:
        before = found.copy()
        for rule in rules:
            rule(found, grounds).put(found)
        if (found == before).all():
            return np.where(found == DOUBTFUL, marks, found)


def _rule_1(marks: Endpoints, grounds: Grounds) -> Asked:
    """Asks for b --> c where a *-> b o-* c and a, c are not adjacent."""
    asked = Asked.nothing(marks)
    arrows, away = marks == ARROW, non_adjacent(marks != NONE)
    wanted = (marks.T == CIRCLE) & compose(arrows.T, away)
    for b, c in np.argwhere(wanted).tolist():
        starts = np.flatnonzero(arrows[:, b] & away[:, c]).tolist()
        if any(grounds.told(a, b, c) for a in starts):
            asked.out_of(b, c)
    return asked


def _rule_2(marks: Endpoints, _: Grounds) -> Asked:
    """Asks for a *-> c where a --> b *-> c or a *-> b --> c, and a *-o c."""
    asked = Asked.nothing(marks)
    arrows, arcs = marks == ARROW, directed(marks)
    asked.arrows = (marks == CIRCLE) & (compose(arcs, arrows) | compose(arrows, arcs))
    return asked


def _rule_3(marks: Endpoints, grounds: Grounds) -> Asked:
    """Asks for t *-> b where a *-> b <-* c, a *-o t o-* c, t *-o b, and a, c are not adjacent."""
    asked = Asked.nothing(marks)
    open_ends, arrows, away = marks == CIRCLE, marks == ARROW, non_adjacent(marks != NONE)
    for t, b in np.argwhere(open_ends & compose(open_ends.T, arrows)).tolist():
        sides = np.flatnonzero(open_ends[:, t] & arrows[:, b]).tolist()
        pairs = (own for own in combinations(sides, 2) if away[own])
        asked.arrows[t, b] = any(grounds.told(a, t, c) for a, c in pairs)
    return asked


def _rule_4(marks: Endpoints, grounds: Grounds) -> Asked:
    """Asks of (t, ..., a, b, c) for b --> c, or a <-> b <-> c where the sepset of t, c lacks b.

    All between t and b are colliders and parents of c, without which nothing separates t and c: a
    set that lacks one contradicts the path, and says nothing of b. Given paths were judged before.
    """
    asked = Asked.nothing(marks)
    for c, b in np.argwhere(marks == CIRCLE).tolist():
        for path in discriminating(marks, b, c):
            if grounds.paths is not None and path not in grounds.paths:
                continue
            t, a = path[0], path[-3]
            pair = (min(t, c), max(t, c))
            if pair not in grounds.sepsets:
                raise GraphError(f"no separating set is given for the pair {pair}")
            if grounds.paths is None and not grounds.sepsets[pair].issuperset(path[1:-2]):
                continue
            if b in grounds.sepsets[pair]:
                asked.out_of(b, c)
            else:
                asked.arrows[[a, c], b] = asked.arrows[b, [a, c]] = True
    return asked


def _rule_5(marks: Endpoints, _: Grounds) -> Asked:
    """Asks for a --- b where a o-o b lies on a cycle of such edges without a chord over one."""
    asked = Asked.nothing(marks)
    loose = (marks == CIRCLE) & (marks.T == CIRCLE)
    search, away = Uncovered(marks, loose), bits(non_adjacent(marks != NONE))
    for a, b in np.argwhere(np.triu(loose)).tolist():
        firsts = members(search.steps[a] & away[b])
        if any(search.reaches(a, g, 1 << b, last=away[a]) for g in firsts):
            asked.tails[a, b] = asked.tails[b, a] = True
    return asked


def _rule_6(marks: Endpoints, _: Grounds) -> Asked:
    """Asks for b --* c where a --- b o-* c."""
    asked = Asked.nothing(marks)
    undirected = (marks == TAIL) & (marks.T == TAIL)
    asked.tails = (marks == CIRCLE) & undirected.any(axis=0)
    return asked


def _rule_7(marks: Endpoints, grounds: Grounds) -> Asked:
    """Asks for b --* c where a --o b o-* c and a, c are not adjacent."""
    asked = Asked.nothing(marks)
    half, away = (marks == CIRCLE) & (marks.T == TAIL), non_adjacent(marks != NONE)
    for c, b in np.argwhere((marks == CIRCLE) & compose(away, half)).tolist():
        starts = np.flatnonzero(half[:, b] & away[c]).tolist()
        asked.tails[c, b] = any(grounds.told(a, b, c) for a in starts)
    return asked


def _rule_8(marks: Endpoints, _: Grounds) -> Asked:
    """Asks for a --> c where a --> b --> c or a --o b --> c, and a o-> c."""
    asked = Asked.nothing(marks)
    arcs, half = directed(marks), (marks == CIRCLE) & (marks.T == TAIL)
    asked.tails = (_half_open(marks) & compose(arcs | half, arcs)).T
    return asked


def _rule_9(marks: Endpoints, _: Grounds) -> Asked:
    """Asks for a --> c where a o-> c and an uncovered possibly directed path avoids its ends.

    It leads from a over b to c, and b and c are not adjacent.
    """
    asked = Asked.nothing(marks)
    search, away = Uncovered(marks, possibly_directed(marks)), bits(non_adjacent(marks != NONE))
    for a, c in np.argwhere(_half_open(marks)).tolist():
        firsts = members(search.steps[a] & away[c])
        asked.tails[c, a] = any(search.reaches(a, b, 1 << c) for b in firsts)
    return asked


def _rule_10(marks: Endpoints, _: Grounds) -> Asked:
    """Asks for a --> c where a o-> c and uncovered possibly directed paths lead to parents of c.

    Their first variables after a are different and not adjacent.
    """
    asked = Asked.nothing(marks)
    search = Uncovered(marks, possibly_directed(marks))
    parents = bits(directed(marks).T)
    for a, c in np.argwhere(_half_open(marks)).tolist():
        targets = parents[c] & ~(1 << a)
        onward = members(search.steps[a] & ~(1 << c)) if targets else ()
        firsts = [first for first in onward if search.reaches(a, first, targets)]
        asked.tails[c, a] = any(marks[pair] == NONE for pair in combinations(firsts, 2))
    return asked


def _half_open(marks: Endpoints) -> BoolMatrix:
    """[a, c] is True where a o-> c, shape (p, p)."""
    return (marks == ARROW) & (marks.T == CIRCLE)
