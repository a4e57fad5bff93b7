"""The DAGs of a class, and what the parents of a variable are in them: the sets of IDA.

Directing an edge directs further edges only in its bucket, the variables that undirected edges
join to it; so buckets are enumerated one by one, and counts multiply.

Sources: Maathuis, Kalisch and Buehlmann, "Estimating high-dimensional intervention effects from
observational data", Annals of Statistics 37 (2009), lemma 3.1 and algorithms 1 and 3 (the multiset
over the class, and locally); Perkovic, Kalisch and Maathuis, "Interpreting and using CPDAGs with
background knowledge", UAI 2017 (with background knowledge); Perkovic, "Identifying causal effects
in maximally oriented partially directed acyclic graphs", UAI 2020 (buckets).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import prod

from cipherdag.graphs.dags import Dag, mask_of, members
from cipherdag.graphs.equivalence import Pattern, extension
from cipherdag.graphs.identification.maximal import directed
from cipherdag.graphs.identification.separation import closure

MOST_IN_A_BUCKET = 32  # of more it could take minutes


def every_member(pattern: Pattern) -> Iterator[Dag]:
    """Every DAG of the class, once: variable by variable, with all parents it may have."""
    waiting = [pattern]
    while waiting:
        graph = waiting.pop()
        v = next((v for v, near in enumerate(graph.neighbours) if near), None)
        if v is None:
            yield graph.parents
        else:
            waiting += [directed(graph, v, chosen) for chosen in _choices(graph, v)]


def possible_parents(pattern: Pattern, v: int) -> Iterator[int]:
    """Bit masks of what the parents of v are in some DAG of the class, each once."""
    bucket = closure(pattern.neighbours, 1 << v)
    for chosen in _choices(_part(pattern, bucket), _place(bucket, v)):
        yield pattern.parents[v] | _spread(bucket, chosen)


def parent_counts(pattern: Pattern, v: int, most: int) -> Counter[int] | None:
    """In how many DAGs of the class v has which parents, as bit masks.

    None where a bucket has more than ``most`` ways to be directed, or more than 32 variables.
    """
    ways = {}
    for bucket in _buckets(pattern):
        if bucket.bit_count() > MOST_IN_A_BUCKET:
            return None
        ways[bucket] = list(islice(every_member(_part(pattern, bucket)), most + 1))
        if len(ways[bucket]) > most:
            return None
    own = closure(pattern.neighbours, 1 << v)
    elsewhere = prod(len(dags) for bucket, dags in ways.items() if bucket != own)
    place, fixed = _place(own, v), pattern.parents[v] & ~own
    found = Counter(fixed | _spread(own, dag[place]) for dag in ways[own])
    return Counter({parents: count * elsewhere for parents, count in found.items()})


def _choices(pattern: Pattern, v: int) -> Iterator[int]:
    """The neighbours that are parents of v in some DAG, all others being its children in it."""
    for chosen in _cliques(pattern, pattern.neighbours[v]):
        if _adds_no_collider(pattern, v, chosen):
            graph = directed(pattern, v, chosen)
            if extension(list(graph.parents), list(graph.neighbours)) is not None:
                yield chosen


def _cliques(pattern: Pattern, inside: int) -> Iterator[int]:
    """Every set of these variables that are all adjacent: as parents they form no collider."""
    waiting = [(0, inside)]
    while waiting:
        clique, further = waiting.pop()
        yield clique
        for u in members(further):
            later = further & ~((2 << u) - 1)
            waiting.append((clique | 1 << u, later & pattern.adjacent(u)))


def _adds_no_collider(pattern: Pattern, v: int, chosen: int) -> bool:
    """Whether new arrows into v, and from v into its other neighbours, meet no stranger's."""
    beside = pattern.adjacent(v) | 1 << v
    into = pattern.parents[v] | chosen
    shielded = all(not into & ~(1 << u) & ~pattern.adjacent(u) for u in members(chosen))
    others = pattern.neighbours[v] & ~chosen
    return shielded and all(not pattern.parents[w] & ~beside for w in members(others))


def _buckets(pattern: Pattern) -> Iterator[int]:
    """Bit masks of the variables that undirected edges join, each variable in one of them."""
    left = (1 << len(pattern)) - 1
    while left:
        bucket = closure(pattern.neighbours, left & -left)
        left &= ~bucket
        yield bucket


def _part(pattern: Pattern, inside: int) -> Pattern:
    """The pattern of some variables alone, at their places among them."""
    kept = list(members(inside))

    def packed(masks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(mask_of(i for i, u in enumerate(kept) if masks[v] >> u & 1) for v in kept)

    return Pattern(*map(packed, (pattern.parents, pattern.children, pattern.neighbours)))


def _place(inside: int, v: int) -> int:
    """The place of a variable among some."""
    return (inside & ((1 << v) - 1)).bit_count()


def _spread(inside: int, packed: int) -> int:
    """A bit mask of places among some variables as one of all."""
    kept = list(members(inside))
    return mask_of(kept[i] for i in members(packed))
