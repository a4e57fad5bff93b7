"""The evidence behind a FedPC graph: tests or votes of its edges, separating sets, colliders."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.constraint_based.report import (
    P_VALUE,
    VERDICT,
    clarity_phrase,
    details_of_tests,
    edge_tests,
    named,
    remarks_on_tests,
    set_of,
    skipped_fact,
    support_of,
    support_phrase,
    with_categories,
)
from cipherdag.algorithms.constraint_based.settings import GraphFromTests
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.algorithms.fedpc.voting import PAPER, Reference
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.doubts import Saying, UnresolvedTriple, contradicted, unresolved_details
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.dags import dag_of, unshielded_colliders
from cipherdag.graphs.edge_evidence import (
    NO_EVIDENCE,
    EdgeEvidence,
    GraphEvidence,
    Separation,
    TestsOfEdge,
)
from cipherdag.graphs.extension import extension_in_code_order
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.knowledge import GIVEN
from cipherdag.graphs.orientation import Triple

MEASURE = "least share of the sites that could test the edge that voted to keep it, over all layers"
UNDIRECTED_OPEN = (
    "Without a direction in this graph, in which {0} - {1} - {2} stands as it does for want of "
    "clear tests: whether {1} is a common effect of the two is not resolved."
)
TOO_FEW = "too few sites could test it"
FORCED = "Collider with {}, which tests do not say: every DAG with these edges has such a one."


def votes_evidence(
    outcome: FedPCOutcome,
    names: Sequence[str],
    *,
    sepset: str,
    reference: Reference,
    closed: bool = False,
) -> GraphEvidence:
    """The evidence of every edge, the separating sets, and how many votes were unanimous.

    An edge's strength is the least share of the sites able to test it that kept it in a layer;
    there is none where votes stayed ``closed``. ``sepset`` says how separating sets were chosen,
    ``reference`` by whose conventions.
    """
    reader = _Reader(outcome, names, reference, closed=closed)
    votes = None if closed else _Votes(outcome)
    return GraphEvidence(
        measure="" if closed else MEASURE,
        edges=reader.edges(_on_closed_votes if votes is None else votes.on),
        support=reference.supports[sepset],
        separations=reader.separations(),
        remarks=() if votes is None else votes.remarks(),
    )


def joint_evidence(
    outcome: FedPCOutcome, names: Sequence[str], kind: str, *, closed: bool = False
) -> GraphEvidence:
    """The evidence of every edge, and the separating sets, of a graph from tests over all sites.

    ``kind`` is the evidence that decided the tests; where ``closed`` p-values are not disclosed.
    """
    reader = _Reader(outcome, names, PAPER, closed=closed)
    return GraphEvidence(
        edges=reader.edges(),
        support=VERDICT if closed else P_VALUE,
        separations=reader.separations(),
        remarks=remarks_on_tests(outcome, kind, closed=closed),
    )


class _Votes:
    """Counts the votes on every edge, over all layers in which it was tested."""

    def __init__(self, outcome: FedPCOutcome) -> None:
        self._skeleton = outcome.skeleton
        self._of_edge: dict[Pair, list[tuple[int, int, int]]] = {}
        self._skipped: dict[Pair, int] = {}
        self._cast = self._unanimous = 0
        for size, layer in enumerate(outcome.votes):
            # an edge whose ends have fewer neighbours than the layer's sets need is not tested
            degree = np.bincount(layer.pairs.ravel(), minlength=len(self._skeleton))
            asked = degree[layer.pairs].max(axis=1, initial=0) > size
            tested = (layer.voters > 0) & asked
            for x, z in layer.pairs[asked & ~tested].tolist():
                self._skipped[x, z] = self._skipped.get((x, z), 0) + 1
            votes, voters = layer.votes[tested], layer.voters[tested]
            self._cast += len(votes)
            self._unanimous += int(((votes == 0) | (votes == voters)).sum())
            x, z = layer.pairs[tested].T
            for pair in np.column_stack([x, z, votes, voters])[self._skeleton[x, z]].tolist():
                self._of_edge.setdefault((pair[0], pair[1]), []).append((pair[2], pair[3], size))

    def on(self, edge: EdgeEvidence, pair: Pair) -> EdgeEvidence:
        """The evidence of an edge with the votes on it."""
        votes = self._of_edge.get(pair, [])
        skipped = self._skipped.get(pair, 0)
        asked = max(len(votes) + skipped, 1)
        tests: TestsOfEdge[str] = TestsOfEdge(
            asked, skipped if votes else max(skipped, 1), given=None, why=TOO_FEW
        )
        counts = [f"{count} of {of} sites given {_given(layer)}" for count, of, layer in votes]
        facts = [f"Kept by {', '.join(counts)}."] if counts else []
        if tests.status != "tested":
            facts.append(skipped_fact(tests))
        edge = replace(edge, status=tests.status, tests=tests, facts=tuple(facts))
        if not votes or tests.status in NO_EVIDENCE:
            return edge
        least, of, _ = min(votes, key=lambda vote: vote[0] / vote[1])
        return replace(edge, strength=least / of, shown=f"{least}/{of}")

    def remarks(self) -> tuple[str, ...]:
        counted = (
            f"{self._cast} votes on edges were counted; {self._unanimous} of them were unanimous, "
            "and a unanimous count tells how every site voted that did."
        )
        without = int(np.triu(self._skeleton).sum()) - len(self._of_edge)
        if not without:
            return (counted,)
        stays = (
            f"{without} edges were not put to the vote in any layer: they stand since too few "
            "sites have rows enough to test them, not since the data speak for them."
        )
        return (counted, stays)


def _on_closed_votes(edge: EdgeEvidence, _: Pair) -> EdgeEvidence:
    """The evidence of an edge where votes stayed closed: that it stands."""
    return replace(edge, status=edge.status if edge.known == "edge" else "", tests=None, facts=())


class _Reader:
    """Puts names and sentences to an outcome."""

    def __init__(
        self, outcome: FedPCOutcome, names: Sequence[str], reference: Reference, *, closed: bool
    ) -> None:
        self._outcome = outcome
        self._reference = reference
        self._closed = closed
        self._names = names
        classed = outcome.in_class
        against = () if classed is None else (*classed.set_aside, *classed.forced)
        doubtful = sorted({*against, *outcome.ambiguous}, reverse=True)
        # for every edge the first doubtful triple that contains it
        self._doubtful = {frozenset(t[k : k + 2]): t for t in doubtful for k in (0, 1)}

    def edges(
        self, voted: Callable[[EdgeEvidence, Pair], EdgeEvidence] = lambda edge, _: edge
    ) -> tuple[EdgeEvidence, ...]:
        """Every edge with its tests, or with what is ``voted`` on it, and why its direction."""
        index = {name: position for position, name in enumerate(self._names)}
        edges = []
        for edge in CausalGraph.from_arcs(self._names, self._outcome.arcs).edges:
            a, b = index[edge.source], index[edge.target]
            tests = edge_tests(self._outcome, self._names, a, b, closed=self._closed)
            evidence = voted(tests, (min(a, b), max(a, b)))
            why = self._direction(a, b) if edge.mark == "-->" else [self._undirected(a, b)]
            why = [GIVEN[evidence.known]] if evidence.known else why
            edges.append(replace(evidence, facts=(*evidence.facts, *why)))
        return tuple(edges)

    def separations(self) -> tuple[Separation, ...]:
        """Pairs with a common neighbour first, then all others that were separated."""
        chosen, support = self._outcome.separators, self._outcome.support
        first = ((pair, given, support[pair]) for pair, given in chosen.items())
        others = (item for item in self._outcome.separated_pairs if item[0] not in chosen)
        return tuple(
            Separation(
                first=self._names[x],
                second=self._names[z],
                given=None if given is None else named(given, self._names),
                support=support_of(p_value, (x, z), given, self._outcome.removed_untested),
            )
            for (x, z), given, p_value in chain(first, others)
        )

    def _undirected(self, a: int, b: int) -> str:
        """Why an edge has no direction."""
        near = self._doubtful.get(frozenset((a, b)))
        if near is None or not self._reference.makes_class:
            return self._reference.undirected
        x, y, z = (self._names[v] for v in near)
        return UNDIRECTED_OPEN.format(x, y, z)

    def _direction(self, a: int, b: int) -> list[str]:
        """Why a --> b: the colliders at b that a is part of, or Meek's rules."""
        arcs, separators = self._outcome.arcs, self._outcome.separators
        facts = []
        for other in np.flatnonzero(arcs[:, b] & ~arcs[b]).tolist():
            if other == a or self._outcome.skeleton[a, other]:
                continue
            pair = (min(a, other), max(a, other))
            if self._outcome.colliders is not None:
                facts += self._judged((pair[0], b, pair[1]), other)
                continue
            given, cause = separators.get(pair), self._names[other]
            if given is None:
                if self._reference.unseparated_collides and pair in separators:
                    facts.append(f"Collider with {cause}: no site has a separating set.")
            elif b not in given:
                removed = self._outcome.removed_untested
                support = support_phrase(self._outcome.support[pair], pair, given, removed)
                facts.append(
                    f"Collider with {cause}: the two causes are independent given "
                    f"{set_of(given, self._names)}, without {self._names[b]} ({support})."
                )
        return facts or ["Directed by Meek's rules, from colliders elsewhere in the graph."]

    def _judged(self, triple: Triple, other: int) -> list[str]:
        """What all sets of neighbours of its ends say of a triple, in sentences."""
        clear = (self._outcome.colliders or {}).get(triple)
        cause, classed = self._names[other], self._outcome.in_class
        if clear is None:
            forced = classed is not None and triple in classed.forced
            return [FORCED.format(cause)] if forced else []
        rule = "p_value_drop" if clear > 1.0 else "majority"
        middle = self._names[triple[1]]
        said = clarity_phrase(clear, middle, rule, closed=self._closed, ends="the two causes")
        return [f"Collider with {cause}: {said}."]


def _given(layer: int) -> str:
    return "nothing" if layer == 0 else f"any {layer} neighbour{'s' if layer > 1 else ''}"


def unresolved_triples(
    outcome: FedPCOutcome, names: Sequence[str], rule: str, *, closed: bool
) -> tuple[UnresolvedTriple, ...]:
    """The triples where the graph contradicts the tests, or of which the tests are not clear.

    ``rule`` judged the triples, as in FedPC's `colliders`; with reference ``code`` there are none
    of these. Where ``closed``, nothing but verdicts was disclosed.
    """
    if (classed := outcome.in_class) is None:
        return ()
    dag = classed.dag
    stands = set(unshielded_colliders(dag_of(dag), dag_of(dag | dag.T)))
    open_triples = set(outcome.ambiguous)
    against = {*classed.set_aside, *classed.forced, *open_triples}
    rows = []
    for x, y, z in sorted(against):
        says: Saying = "collider" if (x, y, z) in classed.set_aside else "no collider"
        rows.append(
            UnresolvedTriple(
                first=names[x],
                middle=names[y],
                last=names[z],
                tests_say="open" if (x, y, z) in open_triples else says,
                evidence=_evidence(outcome, names, (x, y, z), rule, closed=closed),
                stands_as="collider" if (x, y, z) in stands else "no collider",
            )
        )
    return tuple(rows)


def _evidence(
    outcome: FedPCOutcome, names: Sequence[str], triple: Triple, rule: str, *, closed: bool
) -> str:
    """What tests say of a triple, in words; "" where they say nothing."""
    x, y, z = triple
    if outcome.colliders is not None:
        clear = outcome.clarity.get(triple)
        if clear is None:
            return ""
        return clarity_phrase(clear, names[y], rule, closed=closed, ends="the two")
    given = outcome.separators.get((x, z))
    if given is None:
        return ""
    support = support_phrase(outcome.support[x, z], (x, z), given, outcome.removed_untested)
    side = "with" if y in given else "without"
    return f"the two are independent given {set_of(given, names)}, {side} {names[y]} ({support})"


def concluded(
    algorithm: GraphFromTests[FedPCOutcome, LearntGraph],
    outcome: FedPCOutcome,
    facts: Facts,
    *,
    sepset: str,
    followed: Reference,
) -> LearntGraph:
    """The graph by name with its evidence and the details that a report is made of."""
    names, closed = facts.names, algorithm.closed
    outcome = replace(outcome, weakest=with_categories(outcome.weakest, facts))
    details: dict[str, Any] = {"evidence": algorithm.decided_by}
    if closed:
        details["reveal"] = "bits"
    if outcome.tests:
        evidence = joint_evidence(outcome, names, algorithm.decided_by, closed=closed)
        details["tests"] = dict(outcome.tests)
    else:
        evidence = votes_evidence(outcome, names, sepset=sepset, reference=followed, closed=closed)
    triples = unresolved_triples(outcome, names, algorithm.rule, closed=closed)
    details |= unresolved_details(triples)
    if algorithm.test == "kci":
        details["kernel_rows"] = rows = algorithm.test_spec.kernel_rows
        remark = (
            f"Kernel tests look at no more than {rows} rows of a site, evenly spaced among all of "
            "them."
        )
        evidence = replace(evidence, remarks=(*evidence.remarks, remark))
    details |= details_of_tests(outcome, names, outcome.untested)
    if outcome.in_class is None:  # with reference `code`, whose arcs may be of no class
        conclusion = as_published_program(names, outcome.arcs, evidence=evidence, details=details)
    else:
        conclusion = LearntGraph.of_dag(
            names,
            outcome.in_class.dag,
            cpdag=outcome.in_class.arcs,
            open_edges=outcome.undirected,
            dag_note=contradicted(triples),
            evidence=evidence,
            details=details,
        )
    return conclusion.with_replicates(outcome.bootstrap)


def as_published_program(names: Sequence[str], arcs: BoolMatrix, **more: Any) -> LearntGraph:
    """The finding of a partly directed matrix, shape (p, p), as the original program makes it.

    In its DAG the remaining edges are directed in the order of that program, which does not look
    for cycles.
    """
    graph = CausalGraph.from_arcs(names, arcs)
    dag = CausalGraph.from_arcs(names, extension_in_code_order(arcs))
    note = "" if dag.is_dag else "The original program's directions form a cycle here."
    return LearntGraph(graph=graph, dag=dag, dag_note=note, **more)
