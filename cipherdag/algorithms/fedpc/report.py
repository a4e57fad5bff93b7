"""The evidence behind a FedPC graph: votes by layer, separating sets, colliders.

Leaks:
    Nothing new: votes and supports are sums that FedPC opened; see `FedPC`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from cipherdag.algorithms.bootstrap import DRAWN_TWICE, once_more
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import details_of
from cipherdag.algorithms.fedpc.untested import (
    NEVER_TOGETHER,
    support_told,
    supported,
    untested_details,
    untested_warnings,
)
from cipherdag.findings.conclusion import LearntGraph, LearntPAG, Note, Report
from cipherdag.findings.confidence import Confidences, bootstrap_details
from cipherdag.findings.rows import Rows
from cipherdag.findings.site_differences import (
    DETAIL,
    OWN_DETAIL,
    SiteDifferences,
    own_note,
    own_panel,
)
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence, Separation
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.knowledge import KNOWN, known_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cipherdag.algorithms.algorithm import Facts
    from cipherdag.algorithms.fedfci.algorithm import FedFCI
    from cipherdag.algorithms.fedpc.algorithm import FedPC
    from cipherdag.algorithms.fedpc.outcome import FedPCOutcome, WeakestTest

MEASURE = "least share of the sites that could test the edge that voted to keep it, over all layers"
SUPPORTS = {
    "max": "highest p-value at any site, on the grid of the secure maximum",
    "mean": "mean p-value over the sites, weighted by rows",
    "vote": "sites that found the two independent given the set",
}
CODE_SUPPORT = "1 less the smallest absolute partial correlation at any site, or a p-value (tables)"
UNDIRECTED = "Both directions imply the same independences, so the data cannot tell them apart."
UNTESTED = "No test over all sites was done: it stands for want of rows or sites."
VOTES = (
    "For every layer, how many sites can test each edge, and if those are enough, how many of them "
    "keep it."
)
DIFFERENCES = (
    "Of every variable, and of those that differ between sites once more in every configuration of "
    "their neighbours, how many sites have rows; where these are enough, how many rows all have, "
    "about the mean share of every category, or of values up to common marks, and how widely the "
    "sites scatter about it; of numbers, whether any site has what looks like a code for missing "
    "values."
)
"""What looking for differences between sites opens."""
CLOSED_VOTES = (
    "For every layer, which edges fall by the votes; not how many votes there were, nor how many "
    "sites can test an edge."
)
SEPARATORS = {
    "max": "For every pair with a common neighbour, the highest p-value at any site, but not at "
    "which, and the separating set that has it.",
    "mean": "For every candidate separating set, the mean p-value weighted by rows, and the rows "
    "of all sites together.",
    "vote": "For every candidate separating set, how many sites find the pair independent.",
}
"""What a choice of separating sets opens where sites vote."""


STAYED_CLOSED = "Votes stayed closed: all that was opened of them is which edges fall."
VERDICT = "1 where the test over all sites says independent, and no number beside it"


def concluded(algorithm: FedPC, outcome: FedPCOutcome, facts: Facts) -> LearntGraph:
    """The graph by name with its evidence, and what `reported` makes a report of."""
    names = facts.names
    details: dict[str, Any] = {"evidence": algorithm.decided_by}
    if algorithm.closed:
        details["reveal"] = algorithm.reveal
    if outcome.tests:
        evidence = joint_evidence(outcome, names, algorithm.decided_by, closed=algorithm.closed)
        details["tests"] = dict(outcome.tests)
    else:
        evidence = votes_evidence(
            outcome,
            names,
            n_sites=facts.n_sites,
            sepset=algorithm.sepset,
            reference=algorithm.reference,
            closed=algorithm.closed,
        )
    if outcome.colliders is not None:
        details["ambiguous_triples"] = [[names[v] for v in own] for own in outcome.ambiguous]
    if algorithm.test == "kci":
        details["kernel_rows"] = algorithm.kernel_rows
        remark = (
            f"Kernel tests look at no more than {algorithm.kernel_rows} rows of a site, evenly "
            "spaced among its own."
        )
        evidence = replace(evidence, remarks=(*evidence.remarks, remark))
    details |= untested_details(outcome.untested, outcome.fallen, names)
    if outcome.differences:
        details[DETAIL] = details_of(outcome.differences, names)
    if outcome.bootstrap is not None:
        details["bootstrap"] = bootstrap_details(outcome.bootstrap, names)
    if algorithm.reference == "code":
        found = LearntGraph.in_code_order(names, outcome.arcs, evidence=evidence, details=details)
    else:
        found = LearntGraph.of_cpdag(
            names, outcome.arcs, standing=outcome.standing, evidence=evidence, details=details
        )
    if outcome.bootstrap is None:
        return found
    drawn_anew = Confidences(details["bootstrap"]).evidence(evidence, found.graph)
    return replace(found, evidence=drawn_anew)


def evidence_disclosed(algorithm: FedPC | FedFCI) -> tuple[str, ...]:
    """What tests over all sites open."""
    kind = EVIDENCE[algorithm.decided_by]
    said = kind.told(closed=algorithm.closed, joining=algorithm.rule == "joining")
    compared = algorithm.compare_sites and kind.asks_columns and not algorithm.closed
    return (said, DIFFERENCES) if compared else (said,)


def disclosed(algorithm: FedPC) -> tuple[str, ...]:
    """What the evidence opens, and with votes what the choice of separating sets does."""
    if algorithm.decided_by != "vote":
        said = evidence_disclosed(algorithm)
    else:
        votes = CLOSED_VOTES if algorithm.closed else VOTES
        said = (votes, SEPARATORS.get(algorithm.sepset, ""))
    return (*said, once_more(algorithm.bootstrap)) if algorithm.bootstrap else said


def reported(algorithm: FedPC | FedFCI, found: LearntGraph | LearntPAG) -> Report:
    """The confidence of every edge, open triples, and variables that differ between sites."""
    notes, limits, panels = [], [], []
    warnings: tuple[str, ...] = ()
    if rows := found.details.get(DETAIL):
        differences, kind = SiteDifferences(rows), algorithm.decided_by
        mixes = EVIDENCE[kind].mixes_sites and not algorithm.site_effect
        warnings = differences.warnings(kind, taken_for_edges=mixes)
        if not warnings and (note := differences.note()):
            notes.append(note)
        panels.append(differences.panel())
    if own := found.details.get(OWN_DETAIL):
        notes.append(own_note(own))
        panels.append(own_panel(own))
    if "bootstrap" in found.details:
        notes.append(Confidences(found.details["bootstrap"]).note(found.graph))
        limits.append(DRAWN_TWICE)
    warnings = (*warnings, *untested_warnings(found.details))
    if triples := found.details.get("ambiguous_triples"):
        lines = tuple(" - ".join(triple) for triple in triples)
        notes.append(Note("Open whether a collider, so not directed by it:", lines))
        panels.append(
            Rows(
                title="Open triples",
                note="Unshielded triples of which it is open whether they are colliders: the tests "
                "of the ends with and without the middle do not clearly differ, or the sets that "
                "separate the ends disagree on it. Nothing is directed on the ground of them.",
                columns=("First", "Middle", "Last"),
                rows=tuple(tuple(triple) for triple in triples),
            )
        )
    return Report(notes=tuple(notes), limits=tuple(limits), panels=tuple(panels), warnings=warnings)


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
        for size, layer in enumerate(outcome.votes):
            # without so many neighbours an edge is not tested, and its votes say nothing
            degree = np.bincount(layer.pairs.ravel(), minlength=len(self._skeleton))
            tested = (layer.able > 0) & (degree[layer.pairs].max(axis=1, initial=0) > size)
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

    def edges(self) -> tuple[EdgeEvidence, ...]:
        place = {name: position for position, name in enumerate(self._names)}
        found = []
        for edge in CausalGraph.from_arcs(self._names, self._outcome.arcs).edges:
            a, b = place[edge.source], place[edge.target]
            votes = self._votes.get((min(a, b), max(a, b)), [])
            least, of, _ = min(
                votes, default=(self._n_sites, self._n_sites, 0), key=lambda own: own[0] / own[1]
            )
            weakest = self._outcome.weakest.get((min(a, b), max(a, b)))
            told = None if self._closed else weakest
            known = known_of(self._outcome.known, a, b)
            direction = self._direction(a, b) if edge.mark == "-->" else [UNDIRECTED]
            direction = [KNOWN[known]] if known else direction
            untested = self._outcome.untested is not None and self._outcome.untested[a, b]
            tested = tested_facts(weakest, self._names, closed=self._closed)
            tested = [NEVER_TOGETHER] if untested else tested
            tested = tested if known != "edge" and self._outcome.tests else []
            found.append(
                EdgeEvidence(
                    source=edge.source,
                    target=edge.target,
                    strength=least / of,
                    shown=f"{least}/{of}" if votes else "",
                    facts=(*self._layers(votes), *tested, *direction),
                    p_value=None if told is None else told.p_value,
                    given=() if told is None else self._named(frozenset(told.given)),
                    effect=None if told is None else told.effect,
                    known=known,
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
            return []
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


def tested_facts(weakest: WeakestTest | None, names: Sequence[str], *, closed: bool) -> list[str]:
    """What the test over all sites says that spoke least for an edge, in sentences."""
    if weakest is None:
        return [UNTESTED]
    said = "Dependent in all tests over all sites that could be done"
    if closed:
        return [f"{said}."]
    under = ", ".join(named(weakest.given, names)) or "nothing"
    found = [f"{said}; the largest p-value is {weakest.p_value:.2g}, given {under}."]
    if weakest.effect is not None:
        told = str(weakest.effect)
        found.append(f"{told[:1].upper()}{told[1:]} in that test.")
    return found


def named(given: Iterable[int], names: Sequence[str]) -> tuple[str, ...]:
    """The names of a set, in their order."""
    return tuple(sorted(names[v] for v in given))


def _given(layer: int) -> str:
    return "nothing" if layer == 0 else f"any {layer} neighbour{'s' if layer > 1 else ''}"
