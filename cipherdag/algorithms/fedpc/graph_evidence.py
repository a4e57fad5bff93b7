"""The evidence behind a FedPC graph: tests or votes of its edges, separating sets, colliders.

Leaks:
    Nothing new: votes and supports are sums that FedPC opened; see `FedPC`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np

from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedpc.edges_on_tests import named, on_tests, undone_fact
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.algorithms.fedpc.untested import support_told, supported
from cipherdag.graphs.edge_evidence import (
    NO_EVIDENCE,
    EdgeEvidence,
    GraphEvidence,
    Separation,
    TestsOfEdge,
)
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.knowledge import KNOWN

MEASURE = "least share of the sites that could test the edge that voted to keep it, over all layers"
SUPPORTS = {
    "max": "highest p-value at any site, on the grid of the secure maximum",
    "mean": "mean p-value over the sites, weighted by rows",
    "vote": "sites that found the two independent given the set",
}
CODE_SUPPORT = "1 less the smallest absolute partial correlation at any site, or a p-value (tables)"
UNDIRECTED = "Both directions imply the same independences, so the data cannot tell them apart."
UNDIRECTED_OPEN = (
    "Without a direction in this graph, in which {0} - {1} - {2} stands as it does for want of "
    "clear tests: whether {1} is a common effect of the two is not resolved."
)
UNDIRECTED_BY_CODE = "The program that is followed gives it no direction."
TOO_FEW = "too few sites could test it"
FORCED = "Collider with {}, which tests do not say: every DAG with these edges has such a one."
STAYED_CLOSED = "Votes stayed closed: all that was opened of them is which edges fall."
VERDICT = "1 where the test over all sites says independent, and no number beside it"


def votes_evidence(
    outcome: FedPCOutcome,
    names: Sequence[str],
    *,
    n_sites: int,
    sepset: str,
    reference: str,
    closed: bool = False,
) -> GraphEvidence:
    """The evidence of every edge, the separating sets, and how many votes were unanimous.

    Strengths are the least share of the ``n_sites`` sites that kept the edge in any layer; there
    are none where votes stayed ``closed``. ``sepset`` and ``reference`` are FedPC's parameters.
    """
    code = reference == "code"
    reader = _Reader(outcome, names, n_sites, code=code)
    return GraphEvidence(
        measure="" if closed else MEASURE,
        edges=reader.edges(),
        support=CODE_SUPPORT if code and sepset == "max" else SUPPORTS[sepset],
        separations=reader.separations(),
        remarks=(STAYED_CLOSED,) if closed else reader.remarks(),
    )


def joint_evidence(
    outcome: FedPCOutcome, names: Sequence[str], kind: str, *, closed: bool = False
) -> GraphEvidence:
    """The separating sets of a graph from tests over all sites, what they direct, and how many.

    ``kind`` is what decided the tests; where ``closed`` nobody has their p-values.
    """
    ways = ", ".join(f"{count} {way}" for way, count in outcome.tests.items())
    reader = _Reader(outcome, names, n_sites=1, code=False, closed=closed)
    return GraphEvidence(
        edges=reader.edges(),
        support=VERDICT if closed else "p-value of the test over all sites",
        separations=reader.separations(),
        remarks=(
            f"Evidence: {kind}.",
            f"Tests over all sites: {ways}.",
            *((EVIDENCE[kind].stayed_closed,) if closed else ()),
        ),
    )


class _Reader:
    """Puts names and sentences to an outcome."""

    def __init__(
        self,
        outcome: FedPCOutcome,
        names: Sequence[str],
        n_sites: int,
        *,
        code: bool,
        closed: bool = False,
    ) -> None:
        self._outcome = outcome
        self._code = code
        self._closed = closed
        self._names = names
        self._n_sites = n_sites
        self._skeleton = outcome.skeleton
        self._votes: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._cast = self._unanimous = 0
        self._cast_on: dict[tuple[int, int], tuple[int, int]] = {}
        classed = outcome.in_class
        against = () if classed is None else (*classed.set_aside, *classed.forced)
        self._doubtful = sorted({*against, *outcome.ambiguous})
        for size, layer in enumerate(outcome.votes):
            # without so many neighbours an edge is not tested, and its votes say nothing
            degree = np.bincount(layer.pairs.ravel(), minlength=len(self._skeleton))
            asked = degree[layer.pairs].max(axis=1, initial=0) > size
            tested = (layer.able > 0) & asked
            for x, z in layer.pairs[asked & ~tested].tolist():
                cast, undone = self._cast_on.get((x, z), (0, 0))
                self._cast_on[x, z] = cast, undone + 1
            cast, able = layer.votes[tested], layer.able[tested]
            self._cast += len(cast)
            self._unanimous += int(((cast == 0) | (cast == able)).sum())
            kept = tested & self._skeleton[layer.pairs[:, 0], layer.pairs[:, 1]]
            for (x, z), votes, of in zip(
                layer.pairs[kept].tolist(),
                layer.votes[kept].tolist(),
                layer.able[kept].tolist(),
                strict=True,
            ):
                self._votes.setdefault((x, z), []).append((votes, of, size))
                cast, undone = self._cast_on.get((x, z), (0, 0))
                self._cast_on[x, z] = cast + 1, undone

    def edges(self) -> tuple[EdgeEvidence, ...]:
        place = {name: position for position, name in enumerate(self._names)}
        found = []
        for edge in CausalGraph.from_arcs(self._names, self._outcome.arcs).edges:
            a, b = place[edge.source], place[edge.target]
            votes = self._votes.get((min(a, b), max(a, b)), [])
            least, of, _ = min(
                votes, default=(self._n_sites, self._n_sites, 0), key=lambda own: own[0] / own[1]
            )
            told = on_tests(self._outcome, self._names, a, b, closed=self._closed)
            direction = self._direction(a, b) if edge.mark == "-->" else [self._undirected(a, b)]
            direction = [KNOWN[told["known"]]] if told["known"] else direction
            voted = self._voted(a, b) if not self._outcome.tests else None
            if voted is not None:
                told["status"], told["tests"], told["facts"] = voted.status, voted, ()
                if voted.status != "tested":
                    told["facts"] = (undone_fact(voted),)
            told["facts"] = (*self._layers(votes), *told["facts"], *direction)
            sure = bool(votes) and told["status"] not in NO_EVIDENCE
            found.append(
                EdgeEvidence(
                    source=edge.source,
                    target=edge.target,
                    strength=least / of if sure else 0.0,
                    shown=f"{least}/{of}" if sure else "",
                    **told,
                )
            )
        return tuple(found)

    def separations(self) -> tuple[Separation, ...]:
        """Pairs with a common neighbour first, then all others that were separated."""
        chosen, support = self._outcome.separators, self._outcome.support
        first = ((pair, given, support[pair]) for pair, given in chosen.items())
        others = (own for own in self._outcome.apart if own[0] not in chosen)
        return tuple(
            Separation(
                first=self._names[x],
                second=self._names[z],
                given=None if given is None else self._named(given),
                support=supported(p_value, (x, z), given, self._outcome.fallen),
            )
            for (x, z), given, p_value in chain(first, others)
        )

    def remarks(self) -> tuple[str, ...]:
        counted = (
            f"{self._cast} votes on edges were counted; {self._unanimous} of them were unanimous, "
            "and a unanimous count tells how every site voted that did."
        )
        untold = int(np.triu(self._skeleton).sum()) - len(self._votes)
        if not untold:
            return (counted,)
        stays = (
            f"{untold} edges were not put to the vote in any layer: they stand since too few sites "
            "have rows enough to test them, not since the data speak for them."
        )
        return (counted, stays)

    def _voted(self, a: int, b: int) -> TestsOfEdge[str] | None:
        """How many layers could take an edge away, and in how many too few sites could test it."""
        if self._closed:
            return None
        cast, undone = self._cast_on.get((min(a, b), max(a, b)), (0, 0))
        asked = max(cast + undone, 1)
        return TestsOfEdge(asked, undone if cast else max(undone, 1), given=None, why=TOO_FEW)

    def _undirected(self, a: int, b: int) -> str:
        """Why an edge has no direction."""
        if self._outcome.in_class is None:
            return UNDIRECTED_BY_CODE
        near = [own for own in self._doubtful if {a, b} in (set(own[:2]), set(own[1:]))]
        if not near:
            return UNDIRECTED
        x, y, z = (self._names[v] for v in near[0])
        return UNDIRECTED_OPEN.format(x, y, z)

    def _layers(self, votes: list[tuple[int, int, int]]) -> list[str]:
        """One sentence on the layers in which the edge was tested."""
        counts = [f"{count} of {of} sites given {_given(layer)}" for count, of, layer in votes]
        return [f"Kept by {', '.join(counts)}."] if counts else []

    def _direction(self, a: int, b: int) -> list[str]:
        """Why a --> b: the colliders at b that a is part of, or Meek's rules."""
        parents = np.flatnonzero(self._outcome.arcs[:, b] & ~self._outcome.arcs[b]).tolist()
        found = []
        for other in parents:
            if other == a or self._skeleton[a, other]:
                continue
            pair = (min(a, other), max(a, other))
            if self._outcome.colliders is not None:
                found += self._judged((pair[0], b, pair[1]), other)
                continue
            given = self._outcome.separators.get(pair)
            if given is None:
                if self._code and pair in self._outcome.separators:
                    found.append(
                        f"Collider with {self._names[other]}: no site found a separating set."
                    )
            elif b not in given:
                p_value, fallen = self._outcome.support[pair], self._outcome.fallen
                found.append(
                    f"Collider with {self._names[other]}: the two causes are independent given "
                    f"{self._set(given)}, without {self._names[b]} "
                    f"({support_told(p_value, pair, given, fallen)})."
                )
        return found or ["Directed by Meek's rules, from colliders elsewhere in the graph."]

    def _judged(self, triple: tuple[int, int, int], other: int) -> list[str]:
        """What was found of a triple by all sets of its ends."""
        clear = (self._outcome.colliders or {}).get(triple)
        if clear is None:
            found = self._outcome.in_class
            forced = found is not None and triple in found.forced
            return [FORCED.format(self._names[other])] if forced else []
        middle, cause = self._names[triple[1]], self._names[other]
        shown = f"{clear:.0%} of the sets that separate the two causes are without {middle}"
        if clear > 1.0 and self._closed:
            shown = f"on balance the two causes turn dependent as {middle} joins"
        elif clear > 1.0:
            shown = f"p of the two causes falls {clear:.3g}-fold, on average, as {middle} joins"
        return [f"Collider with {cause}: {shown}."]

    def _named(self, given: Collection[int]) -> tuple[str, ...]:
        return named(given, self._names) if given else ()

    def _set(self, given: frozenset[int]) -> str:
        return ", ".join(self._named(given)) or "nothing"


def _given(layer: int) -> str:
    return "nothing" if layer == 0 else f"any {layer} neighbour{'s' if layer > 1 else ''}"
