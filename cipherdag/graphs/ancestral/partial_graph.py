"""A graph decided in part, and what follows: edges, ancestors, and middles of triples.

Without selection the mark of an edge at b says whether b is an ancestor of the other end. So marks
are held as facts about ancestors, also of pairs without an edge. All is in bit masks, since a
search looks at thousands of such graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from cipherdag.graphs.dags import members, reachable
from cipherdag.graphs.endpoints import ARROW, CIRCLE, TAIL, Endpoints
from cipherdag.graphs.orientation import Triple

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GroupConstraints:
    """What the groups' graphs, each over some of p variables, say of a graph over all.

    Attributes:
        inside: By pair x < y that a group separates, a mask of all variables in its separating
            sets: they are no colliders between the two.
        outside: By the same pair, a mask of those outside one: colliders, if adjacent to both.
        induced: By edge x < y of groups, a mask per group of the variables that it lacks: if x and
            y are not adjacent, an inducing path through these variables has to join them.
    """

    inside: dict[Pair, int] = field(default_factory=dict)
    outside: dict[Pair, int] = field(default_factory=dict)
    induced: dict[Pair, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class PartialGraph:
    """What is decided of a graph over p variables; lists have a bit mask for every variable v."""

    joined: list[int]  # neighbours of v
    loose: list[int]  # variables that may be neighbours of v or not
    below: list[int]  # variables that v is an ancestor of
    never: list[int]  # variables that v is no ancestor of
    middles: dict[Triple, bool] = field(default_factory=dict)  # whether y was assumed to collide

    def branches(self, constraints: GroupConstraints) -> list[PartialGraph]:
        """The graphs in which one pair or triple more is decided; none where all are."""
        open_pairs = ((x, (y & -y).bit_length() - 1) for x, y in enumerate(self.loose) if y)
        if (pair := next(open_pairs, None)) is not None:
            present, absent = self._copy(), self._copy()
            present.decide(*pair, adjacent=True)
            absent.decide(*pair, adjacent=False)
            return [present, absent]
        triples = (each for each in self.triples() if not any(self._implied(each, constraints)))
        if (triple := next(triples, None)) is not None:
            collider, other = self._copy(), self._copy()
            collider.middles[triple], other.middles[triple] = True, False
            return [collider, other]
        return []

    def triples(self) -> Iterator[Triple]:
        """The unshielded triples (x, y, z), x < z, that are certain."""
        for y, near in enumerate(self.joined):
            for x, z in combinations(members(near), 2):
                if not (self.joined[x] | self.loose[x]) >> z & 1:
                    yield x, y, z

    def marks(self) -> Endpoints:
        """The marks of all possible edges; circles at ends that are undecided or contradictory."""
        marks = np.zeros((len(self.joined),) * 2, dtype=np.int8)
        for b, (joined, loose) in enumerate(zip(self.joined, self.loose, strict=True)):
            for a in members(joined | loose):
                tail, arrow = self.below[b] >> a & 1, self.never[b] >> a & 1
                marks[a, b] = CIRCLE if tail == arrow else TAIL if tail else ARROW
        return marks

    def propagate(self, constraints: GroupConstraints) -> bool:
        """Add all that follows from what is decided; whether that is without contradiction."""
        while True:
            before = (*self.joined, *self.loose, *self.below, *self.never)
            if not (self._propagate_ancestors() and self._propagate_triples(constraints)):
                return False
            self._remove_shields(constraints)
            if before == (*self.joined, *self.loose, *self.below, *self.never):
                return self._induces(constraints)

    def decide(self, x: int, y: int, *, adjacent: bool) -> None:
        """Decide whether a loose pair is adjacent."""
        for a, b in ((x, y), (y, x)):
            self.loose[a] &= ~(1 << b)
            if adjacent:
                self.joined[a] |= 1 << b

    def _implied(self, triple: Triple, constraints: GroupConstraints) -> tuple[bool, bool]:
        """Whether anything says that the middle of a triple is a collider, and that it is none."""
        x, y, z = triple
        pair, ends = (min(x, z), max(x, z)), 1 << x | 1 << z
        assumed = self.middles.get((pair[0], y, pair[1]))
        yes = constraints.outside.get(pair, 0) >> y & 1 or not ends & ~self.never[y]
        no = constraints.inside.get(pair, 0) >> y & 1 or self.below[y] & ends
        return bool(yes or assumed), bool(no or assumed is False)

    def _copy(self) -> PartialGraph:
        joined, loose = self.joined.copy(), self.loose.copy()
        return PartialGraph(
            joined, loose, self.below.copy(), self.never.copy(), self.middles.copy()
        )

    def _propagate_ancestors(self) -> bool:
        """Add ancestors of ancestors, and who is no ancestor; False if some pair is both."""
        everything = (1 << len(self.below)) - 1
        for v in range(len(self.below)):
            self.below[v] = reachable(self.below, self.below[v])
        steps = [
            (joined | loose) & ~never
            for joined, loose, never in zip(self.joined, self.loose, self.never, strict=True)
        ]
        for v, descendants in enumerate(self.below):
            self.never[v] |= everything & ~reachable(steps, 1 << v)
            for w in members(descendants):
                self.never[w] |= self.never[v] | 1 << v
        for v, never in enumerate(self.never):
            above = sum(1 << w for w, descendants in enumerate(self.below) if descendants & never)
            self.never[v] |= above & ~(1 << v)
        facts = zip(self.below, self.never, strict=True)
        return not any(a & (b | 1 << v) for v, (a, b) in enumerate(facts))

    def _propagate_triples(self, constraints: GroupConstraints) -> bool:
        """Add what colliders and non-colliders say of ancestors; False if a triple is both."""
        for x, y, z in self.triples():
            collider, other = self._implied((x, y, z), constraints)
            if collider and other:
                return False
            if collider:
                self.never[y] |= 1 << x | 1 << z
            elif other and self.never[y] & (1 << x | 1 << z):
                self.below[y] |= (1 << z) if self.never[y] >> x & 1 else (1 << x)
        return True

    def _remove_shields(self, constraints: GroupConstraints) -> None:
        """Take out loose pairs that cannot be adjacent: a triple would contradict constraints."""
        for y, loose in enumerate(self.loose):
            for z in members(loose):
                others = self.joined[y] & ~(self.joined[z] | self.loose[z]) & ~(1 << z)
                if any(all(self._implied((x, y, z), constraints)) for x in members(others)):
                    self.decide(y, z, adjacent=False)

    def _induces(self, constraints: GroupConstraints) -> bool:
        """Whether an inducing path is possible for every group's edge that this graph lacks."""
        # by (u, v), a mask of the w for which v is no collider in the triple u, v, w
        plain: dict[Pair, int] = {}
        for x, y, z in self.triples():
            if self._implied((x, y, z), constraints)[1]:
                plain[x, y] = plain.get((x, y), 0) | 1 << z
                plain[z, y] = plain.get((z, y), 0) | 1 << x
        return all(
            self._may_induce(x, y, lacking, plain)
            for (x, y), masks in constraints.induced.items()
            if not (self.joined[x] | self.loose[x]) >> y & 1
            for lacking in masks
        )

    def _may_induce(self, x: int, y: int, lacking: int, plain: dict[Pair, int]) -> bool:
        """Whether an inducing path between x and y relative to ``lacking`` is possible.

        One of these variables is on it, since x and y would be adjacent otherwise.
        """
        near = [joined | loose for joined, loose in zip(self.joined, self.loose, strict=True)]
        waiting = [(x, v, lacking >> v & 1) for v in members(near[x] & ~(1 << y))]
        seen = set(waiting)
        while waiting:
            u, v, relative = waiting.pop()
            onward = 0
            above = not (self.never[v] >> x & 1 and self.never[v] >> y & 1)
            if above and not self.below[v] >> u & 1:
                onward |= near[v] & ~self.below[v] & ~plain.get((u, v), 0)
            if lacking >> v & 1:
                onward |= near[v] & (~self.never[v] if self.never[v] >> u & 1 else -1)
            if relative and onward >> y & 1:
                return True
            for w in members(onward & ~(1 << x | 1 << y | 1 << u)):
                if (step := (v, w, relative or lacking >> w & 1)) not in seen:
                    seen.add(step)
                    waiting.append(step)
        return False
