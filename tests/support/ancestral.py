"""Maximal ancestral graphs by their definition, and PAGs as what all equivalent ones share.

A graph is a dict {(i, j): mark at j} with the marks ">" and "-", both ends of every edge in it.
Nothing here shares code with the package.

Sources: Richardson and Spirtes, "Ancestral graph Markov models", Annals of Statistics 30 (2002);
Sadeghi and Lauritzen, "Markov properties for mixed graphs", Bernoulli 20 (2014): in a maximal graph
the pairwise separations given antecedents imply all others, which `equivalent` rests on.
"""

from collections import deque
from functools import cache
from itertools import chain, combinations, product

import numpy as np

NUMBERS = {"o": 1, ">": 2, "-": 3}


def subsets(members):
    members = list(members)
    return chain.from_iterable(combinations(members, size) for size in range(len(members) + 1))


def ancestors(dag, of):
    """All variables with a directed path to some of a set, and the set itself."""
    found, waiting = set(of), list(of)
    while waiting:
        for parent in np.flatnonzero(dag[:, waiting.pop()]).tolist():
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return found


def inducing_path(dag, x, y, hidden, selected):
    """Whether a path joins x and y on which every variable but them is hidden or a collider, and
    every collider is an ancestor of x, y or a selection variable (definition 4.5)."""
    above = ancestors(dag, {x, y, *selected})
    either = dag | dag.T

    def go(path):
        v = path[-1]
        if v == y:
            return True
        for w in np.flatnonzero(either[v]).tolist():
            if w in path:
                continue
            if len(path) > 1:
                collider = dag[path[-2], v] and dag[w, v]
                if collider and v not in above:
                    continue
                if not collider and v not in hidden:
                    continue
            if go([*path, w]):
                return True
        return False

    return go([x])


def mag_of(dag, hidden=(), selected=()):
    """The MAG of a DAG over its other variables, renumbered from 0 in their order."""
    observed = [v for v in range(len(dag)) if v not in hidden and v not in selected]
    above = {v: ancestors(dag, {v, *selected}) for v in observed}
    marks = {}
    for (i, x), (j, y) in combinations(enumerate(observed), 2):
        if inducing_path(dag, x, y, set(hidden), set(selected)):
            marks[i, j] = "-" if y in above[x] else ">"
            marks[j, i] = "-" if x in above[y] else ">"
    return marks


def anteriors(mag, of):
    """All variables with a path of undirected edges and arrows to some of a set, and the set."""
    found, waiting = set(of), list(of)
    while waiting:
        v = waiting.pop()
        for a, b in mag:
            if b == v and mag[b, a] == "-" and a not in found:
                found.add(a)
                waiting.append(a)
    return found


def directed_ancestors(mag, of):
    found, waiting = set(of), list(of)
    while waiting:
        v = waiting.pop()
        for a, b in mag:
            if b == v and mag[b, a] == "-" and mag[a, b] == ">" and a not in found:
                found.add(a)
                waiting.append(a)
    return found


def m_separated(mag, x, y, given):
    """Whether no path between x and y is open: reachability over edges, direction by direction."""
    near = {}
    for a, b in mag:
        near.setdefault(a, []).append(b)
    opened = directed_ancestors(mag, given)
    seen = {(x, w) for w in near.get(x, ())}
    waiting = list(seen)
    while waiting:
        a, b = waiting.pop()
        if b == y:
            return False
        for c in near[b]:
            if c == a or (b, c) in seen:
                continue
            collider = mag[a, b] == ">" and mag[c, b] == ">"
            if (b in opened) if collider else (b not in given):
                seen.add((b, c))
                waiting.append((b, c))
    return True


def is_ancestral(n, mag):
    """Whether no arrowhead points at an anterior or at an undirected edge (definition 3.1)."""
    before = [0] * n
    heads = 0
    for (a, b), mark in mag.items():
        if mag[b, a] == "-":
            before[b] |= 1 << a
        if mark == ">":
            heads |= 1 << b
    for v in range(n):  # Warshall
        before = [own | before[v] if own >> v & 1 else own for own in before]
    for (a, b), mark in mag.items():
        if mark == ">" and before[a] >> b & 1:
            return False  # a *-> b although b is anterior to a
        if mark == mag[b, a] == "-" and heads >> b & 1:
            return False
    return True


def is_mag(n, mag):
    """Whether a graph is ancestral and maximal (definitions 3.1 and 3.7)."""
    pairs = ((x, y) for x, y in combinations(range(n), 2) if (x, y) not in mag)
    return is_ancestral(n, mag) and all(
        m_separated(mag, x, y, anteriors(mag, {x, y}) - {x, y}) for x, y in pairs
    )


def unshielded_colliders(mag):
    """All x *-> y <-* z whose ends are not adjacent."""
    into = {}
    for a, b in mag:
        if mag[a, b] == ">":
            into.setdefault(b, []).append(a)
    return {
        (min(x, z), y, max(x, z))
        for y, near in into.items()
        for x, z in combinations(near, 2)
        if (x, z) not in mag
    }


def equivalent(n, here, there):
    """Whether two MAGs over one skeleton have the same separations."""
    if here.keys() != there.keys():
        return False
    for x, y in combinations(range(n), 2):
        if (x, y) in here:
            continue
        for one, other in ((here, there), (there, here)):
            if not m_separated(other, x, y, anteriors(one, {x, y}) - {x, y}):
                return False
    return True


def separations(n, mag):
    """All separations, by going through all sets: a key of the class."""
    return frozenset(
        (x, y, given)
        for x, y in combinations(range(n), 2)
        for given in subsets(set(range(n)) - {x, y})
        if m_separated(mag, x, y, set(given))
    )


def all_mags(n):
    """Every MAG over n variables."""
    pairs = list(combinations(range(n), 2))
    kinds = [None, ("-", ">"), (">", "-"), (">", ">"), ("-", "-")]
    for chosen in product(kinds, repeat=len(pairs)):
        mag = {}
        for (a, b), kind in zip(pairs, chosen, strict=True):
            if kind is not None:
                mag[b, a], mag[a, b] = kind
        if is_mag(n, mag):
            yield mag


def shared(n, mags):
    """The marks that MAGs over one skeleton share and circles elsewhere, as a matrix."""
    mags = list(mags)
    found = np.zeros((n, n), dtype=np.int8)
    for end in mags[0]:
        marks = {mag[end] for mag in mags}
        found[end] = NUMBERS["o" if len(marks) > 1 else marks.pop()]
    return found


def neighbours(n, mag, *, selection):
    """Graphs that differ in one edge, or in all edges without or with tails at one variable."""
    kinds = [("-", ">"), (">", "-"), (">", ">"), *([("-", "-")] if selection else [])]
    for a, b in mag:
        if a < b:
            for at_a, at_b in kinds:
                if (mag[b, a], mag[a, b]) != (at_a, at_b):
                    yield {**mag, (b, a): at_a, (a, b): at_b}
    if not selection:
        return
    for v in range(n):
        near = [a for a, b in mag if b == v]
        plain = [a for a in near if mag[a, v] == mag[v, a] == "-"]
        into = [a for a in near if mag[a, v] == ">" and mag[v, a] == "-"]
        if len(plain) > 1:
            yield {**mag, **{(a, v): ">" for a in plain}}
        if len(into) > 1:
            yield {**mag, **{(a, v): "-" for a in into}}


def varied(n, mag, wanted, *, selection, others=(), most=4000):
    """Which of some ends of edges have another mark in a MAG equivalent to this one.

    Walks over the class by small changes, from this one and others of it, each held against the
    definition, until all wanted ends have been seen with another mark, or after so many graphs.
    """
    wanted, found, colliders = set(wanted), set(), unshielded_colliders(mag)
    waiting = deque([*others, mag] if wanted else [])
    seen = {tuple(sorted(own.items())) for own in waiting}
    while waiting and not wanted <= found and len(seen) < most:
        for other in neighbours(n, waiting.popleft(), selection=selection):
            key = tuple(sorted(other.items()))
            if key in seen:
                continue
            if (
                is_ancestral(n, other)
                and unshielded_colliders(other) == colliders  # most fail here, soon
                and equivalent(n, mag, other)  # and so maximal, as the first is
            ):
                seen.add(key)
                waiting.append(other)
                found |= {end for end in mag if other[end] != mag[end]}
    return found


@cache
def true_pags(n):
    """The marks of every class of MAGs over n variables, selection among them."""
    members = {}
    for mag in all_mags(n):
        members.setdefault(separations(n, mag), []).append(dict(mag))
    return {shared(n, own).tobytes() for own in members.values()}
