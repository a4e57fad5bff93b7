"""From a skeleton and separating sets to a PAG: colliders, then Zhang's rules 1 to 10.

Every rule looks at the graph as it stands and asks for marks; only circles become marks, and a
circle of which one pass of a rule asks for an arrowhead and a tail both stays. So the order of the
variables decides nothing. A triple of which it is undecided whether its middle is a collider is no
ground for a rule.

Source: Zhang, "On the completeness of orientation rules for causal discovery in the presence of
latent confounders and selection bias", Artificial Intelligence 172 (2008), sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.ancestral.paths import Uncovered, discriminating, possibly_directed
from cipherdag.graphs.dags import members, row_masks
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL, Endpoints, directed, non_adjacent
from cipherdag.graphs.orientation import Triple, compose

DOUBTFUL = 4
"""Stands, while rules are applied, in place of the marks of an edge that may not be there."""
Sepsets = Mapping[tuple[int, int], frozenset[int]]  # separating sets by pair (x, z), x < z


@dataclass(slots=True)
class Requests:
    """The marks that a rule asks for, each of shape (p, p); [i, j] is the end at j."""

    arrows: BoolMatrix
    tails: BoolMatrix

    @classmethod
    def none(cls, endpoints: Endpoints) -> Requests:
        """No mark."""
        return cls(np.zeros(endpoints.shape, dtype=bool), np.zeros(endpoints.shape, dtype=bool))

    def arrow(self, b: int, c: int) -> None:
        """Ask for b --> c."""
        self.arrows[b, c] = self.tails[c, b] = True

    def put(self, endpoints: Endpoints) -> None:
        """Put the marks at circles, except where both kinds are asked for."""
        clear = (endpoints == CIRCLE) & ~(self.arrows & self.tails)
        endpoints[clear & self.arrows] = ARROW
        endpoints[clear & self.tails] = TAIL


@dataclass(frozen=True, slots=True)
class Grounds:
    """What the rules rest on, other than the graph.

    Attributes:
        sepsets: Separating sets of the pairs that are not adjacent, for rule 4.
        ambiguous: Unshielded triples (x, y, z), x < z, that rules do not rest on.
        paths: Discriminating paths that rule 4 may rest on; None for all that fit ``sepsets``.
        doubtful: Edges that may not be there, since not all variables were measured together, shape
            (p, p), symmetric; None if all were. Their marks stay, and no rule rests on such an edge
            or on its absence. Edges were then tested among different sets of variables, so that
            only rules about ancestors are applied: 1, 2, 3 and 8.
    """

    sepsets: Sepsets = field(default_factory=dict)
    ambiguous: Collection[Triple] = ()
    paths: Collection[tuple[int, ...]] | None = None
    doubtful: BoolMatrix | None = None

    def decided(self, x: int, y: int, z: int) -> bool:
        """Whether tests decide whether the middle of a triple is a collider."""
        return (min(x, z), y, max(x, z)) not in self.ambiguous


def with_colliders(endpoints: Endpoints, triples: Iterable[Triple]) -> Endpoints:
    """Rule 0: x *-> y <-* z for the given unshielded triples (x, y, z); a copy."""
    requests = Requests.none(endpoints)
    for x, y, z in triples:
        requests.arrows[[x, z], y] = True
    oriented = endpoints.copy()
    requests.put(oriented)
    return oriented


def apply_zhang_rules(
    endpoints: Endpoints, grounds: Grounds, *, selection: bool = True
) -> Endpoints:
    """Every mark that the rules imply, with those of the graph; a copy.

    Without ``selection`` no variable decides which rows there are: no edge has a tail at both ends,
    and rules 5 to 7 are left out. GraphError where rule 4 needs a separating set that is not given.
    """
    rules = [*RULES] if selection else [*RULES[:4], *RULES[7:]]
    oriented = endpoints.copy()
    if grounds.doubtful is not None:
        rules = [_rule_1, _rule_2, _rule_3, _rule_8]
        oriented[grounds.doubtful] = DOUBTFUL
    while True:
        before = oriented.copy()
        for rule in rules:
            requests = Requests.none(oriented)
            rule(oriented, grounds, requests)
            requests.put(oriented)
        if (oriented == before).all():
            return np.where(oriented == DOUBTFUL, endpoints, oriented)


def _distant(endpoints: Endpoints) -> BoolMatrix:
    return non_adjacent(endpoints != NONE)


def _rule_1(endpoints: Endpoints, grounds: Grounds, requests: Requests) -> None:
    """Asks for b --> c where a *-> b o-* c and a, c are not adjacent."""
    arrows, distant = endpoints == ARROW, _distant(endpoints)
    wanted = (endpoints.T == CIRCLE) & compose(arrows.T, distant)
    for b, c in np.argwhere(wanted).tolist():
        starts = np.flatnonzero(arrows[:, b] & distant[:, c]).tolist()
        if any(grounds.decided(a, b, c) for a in starts):
            requests.arrow(b, c)


def _rule_2(endpoints: Endpoints, _: Grounds, requests: Requests) -> None:
    """Asks for a *-> c where a --> b *-> c or a *-> b --> c, and a *-o c."""
    arrows, arcs = endpoints == ARROW, directed(endpoints)
    requests.arrows = (endpoints == CIRCLE) & (compose(arcs, arrows) | compose(arrows, arcs))


def _rule_3(endpoints: Endpoints, grounds: Grounds, requests: Requests) -> None:
    """Asks for t *-> b where a *-> b <-* c, a *-o t o-* c, t *-o b, and a, c are not adjacent."""
    open_ends, arrows, distant = endpoints == CIRCLE, endpoints == ARROW, _distant(endpoints)
    for t, b in np.argwhere(open_ends & compose(open_ends.T, arrows)).tolist():
        sides = np.flatnonzero(open_ends[:, t] & arrows[:, b]).tolist()
        pairs = (pair for pair in combinations(sides, 2) if distant[pair])
        requests.arrows[t, b] = any(grounds.decided(a, t, c) for a, c in pairs)


def _rule_4(endpoints: Endpoints, grounds: Grounds, requests: Requests) -> None:
    """Asks of (t, ..., a, b, c) for b --> c, or a <-> b <-> c where the sepset of t, c lacks b.

    All between t and b are colliders and parents of c, so that a set that separates t and c has all
    of them. A set that lacks one says nothing of b; ``grounds.paths`` were judged before.
    """
    for c, b in np.argwhere(endpoints == CIRCLE).tolist():
        for path in discriminating(endpoints, b, c):
            if grounds.paths is not None and path not in grounds.paths:
                continue
            t, a = path[0], path[-3]
            pair = (min(t, c), max(t, c))
            if pair not in grounds.sepsets:
                raise GraphError(f"no separating set is given for the pair {pair}")
            if grounds.paths is None and not grounds.sepsets[pair].issuperset(path[1:-2]):
                continue
            if b in grounds.sepsets[pair]:
                requests.arrow(b, c)
            else:
                requests.arrows[[a, c], b] = requests.arrows[b, [a, c]] = True


def _rule_5(endpoints: Endpoints, _: Grounds, requests: Requests) -> None:
    """Asks for a --- b where a o-o b lies on a cycle of such edges without a chord over one."""
    loose = (endpoints == CIRCLE) & (endpoints.T == CIRCLE)
    search, distant = Uncovered(endpoints, loose), row_masks(_distant(endpoints))
    for a, b in np.argwhere(np.triu(loose)).tolist():
        firsts = members(search.steps[a] & distant[b])
        if any(search.reaches(a, g, 1 << b, last=distant[a]) for g in firsts):
            requests.tails[a, b] = requests.tails[b, a] = True


def _rule_6(endpoints: Endpoints, _: Grounds, requests: Requests) -> None:
    """Asks for b --* c where a --- b o-* c."""
    undirected = (endpoints == TAIL) & (endpoints.T == TAIL)
    requests.tails = (endpoints == CIRCLE) & undirected.any(axis=0)


def _rule_7(endpoints: Endpoints, grounds: Grounds, requests: Requests) -> None:
    """Asks for b --* c where a --o b o-* c and a, c are not adjacent."""
    half, distant = (endpoints == CIRCLE) & (endpoints.T == TAIL), _distant(endpoints)
    for c, b in np.argwhere((endpoints == CIRCLE) & compose(distant, half)).tolist():
        starts = np.flatnonzero(half[:, b] & distant[c]).tolist()
        requests.tails[c, b] = any(grounds.decided(a, b, c) for a in starts)


def _rule_8(endpoints: Endpoints, _: Grounds, requests: Requests) -> None:
    """Asks for a --> c where a --> b --> c or a --o b --> c, and a o-> c."""
    arcs, half = directed(endpoints), (endpoints == CIRCLE) & (endpoints.T == TAIL)
    requests.tails = (_half_open(endpoints) & compose(arcs | half, arcs)).T


def _rule_9(endpoints: Endpoints, _: Grounds, requests: Requests) -> None:
    """Asks for a --> c where a o-> c and an uncovered possibly directed path avoids its ends.

    It leads from a over b to c, and b and c are not adjacent.
    """
    search = Uncovered(endpoints, possibly_directed(endpoints))
    distant = row_masks(_distant(endpoints))
    for a, c in np.argwhere(_half_open(endpoints)).tolist():
        firsts = members(search.steps[a] & distant[c])
        requests.tails[c, a] = any(search.reaches(a, b, 1 << c) for b in firsts)


def _rule_10(endpoints: Endpoints, _: Grounds, requests: Requests) -> None:
    """Asks for a --> c where a o-> c and uncovered possibly directed paths lead to parents of c.

    Their first variables after a are different and not adjacent.
    """
    search = Uncovered(endpoints, possibly_directed(endpoints))
    parents = row_masks(directed(endpoints).T)
    for a, c in np.argwhere(_half_open(endpoints)).tolist():
        targets = parents[c] & ~(1 << a)
        onward = members(search.steps[a] & ~(1 << c)) if targets else ()
        firsts = [first for first in onward if search.reaches(a, first, targets)]
        requests.tails[c, a] = any(endpoints[pair] == NONE for pair in combinations(firsts, 2))


def _half_open(endpoints: Endpoints) -> BoolMatrix:
    """[a, c] is True where a o-> c, shape (p, p)."""
    return (endpoints == ARROW) & (endpoints.T == CIRCLE)


RULES = _rule_1, _rule_2, _rule_3, _rule_4, _rule_5, _rule_6, _rule_7, _rule_8, _rule_9, _rule_10
