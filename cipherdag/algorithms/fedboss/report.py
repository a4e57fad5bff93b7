"""FedBOSS's account of a run: the score along the search, what edges are worth, what was opened."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.fit_checks import CurvedEdge, details_of_curves
from cipherdag.algorithms.evidence.site_differences import SiteDifference, details_of
from cipherdag.algorithms.fedboss.graph_draws import MOST_SAMPLED, SPARE_ROWS, draw_graphs
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.axes import Curves, Series
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.findings.doubts import (
    DIFFERING,
    TAKEN_FOR_EDGES,
    curve_warnings,
    differences_report,
    row_details,
)
from cipherdag.findings.finding import Note, Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.findings.graph_finding import SAMPLE
from cipherdag.findings.order_in_time import order_report
from cipherdag.findings.panels import HeatMap, Panel
from cipherdag.graphs.edge_evidence import EdgeEvidence, EffectSize, GraphEvidence
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.knowledge import GIVEN, Constraints, given_of
from cipherdag.pages.numerals import first_of

MEASURE = "units of log likelihood that the score falls without the edge"
BY_COMPARISON = "Without it the score over all sites is lower."
BY_TESTS = (
    "Tests find the two dependent, whatever neighbours are given; its table is too large to score."
)
NOT_COMPARED = "The search ended before it had compared the score without it."
SCORED = {
    "pooled": "sets of variables were scored from tables over all sites",
    "sites": "sets of variables were scored from the likelihoods of single sites",
}
RISES = (
    "The best score so far, after the first search and after every one that started again from "
    "what was best: where it still rises at the end, more starts may find more."
)
"""What the curve of the score shows."""
BETWEEN = (
    "Scores are of all sites' rows as if of one site: columns whose levels differ between sites "
    "depend on each other in them. Without --no-within-sites such differences are no evidence."
)
IN_GRAPHS = (
    "In how many of {n} graphs that fit these data the row causes the column, directly or through "
    "others. It holds if nothing unmeasured causes two of these variables, and if their relations "
    "are straight lines. 0.00 and 1.00 stand for less than .01 and more than .99."
)
DISPUTED = (
    "Fewer than half of the graphs that fit have what the best graph shows here: {edges}. Read the "
    "shares of both directions, and rely on neither."
)
MAJORITY = 0.5
OVER_GRAPHS = (
    "Estimate an effect over these graphs: cipherdag effect FOLDER --of CAUSE --on OUTCOME, where "
    "FOLDER is that of this report. It says in how many graphs there is one, and how strong it is."
)
UNSURE = (
    "How sure edges and arrows are was not computed: that needs columns of numbers alone, without "
    "missing values. Run again with --bootstrap 20 before you rely on an arrow."
)
NOT_DRAWN = (
    "How many graphs fit these data is not said: that needs at most {most} variables, and {more} "
    "rows more than there are variables and sites."
)
CUT_SHORT = (
    "The budget of rounds or values was spent before the search had seen all it wanted: a longer "
    "one may find a better graph (--max-rounds, --max-values)."
)


@dataclass(frozen=True, slots=True)
class FedBOSSOutcome:
    """The best graph and its score; p variables.

    Attributes:
        dag: The best DAG found, directed edges of shape (p, p).
        arcs: Its CPDAG, shape (p, p): True where i -> j or i - j (undirected edges both ways).
        curve: The best score after every start or phase of the search, in nats; larger is better.
            Empty where scores were not disclosed.
        by_tests: Edges that tests found and scores did not, shape (p, p); None without tests.
        compared: How many pairs of undisclosed scores were compared; None where scores were
            disclosed.
        worth: Every edge (cause, effect, nats): by how much the score falls without it alone.
        effects: For edges (cause, effect) the partial correlation given the effect's other causes,
            where moments were disclosed.
        sets: How many sets of variables were scored in which way; empty for moments.
        cut_short: Whether the search ran out of its budget of rounds or values.
        incomplete: Columns that miss values at some site.
        of_patients: The details on rows that are visits, as `ColumnKinds` has them.
        differences: Tests of every variable for differences between the sites.
        curved: The edges whose columns follow a neighbour as no test's regression can.
        moments: The correlations and rows that scores were computed from; None of other scores.
    """

    dag: BoolMatrix
    arcs: BoolMatrix
    curve: tuple[float, ...] = ()
    by_tests: BoolMatrix | None = field(repr=False, default=None)
    compared: int | None = None
    worth: tuple[tuple[int, int, float], ...] = field(repr=False, default=())
    effects: Mapping[tuple[int, int], EffectSize] = field(repr=False, default_factory=dict)
    sets: Mapping[str, int] = field(default_factory=dict)
    cut_short: bool = False
    bootstrap: EdgeCounts | None = field(repr=False, default=None)
    constraints: Constraints | None = field(repr=False, default=None)
    incomplete: tuple[int, ...] = ()
    rows: int = 0
    of_patients: Mapping[str, Any] = field(default_factory=dict)
    differences: tuple[SiteDifference, ...] = ()
    curved: tuple[CurvedEdge, ...] = ()
    moments: MomentScores | None = field(repr=False, default=None)


def concluded(outcome: FedBOSSOutcome, facts: Facts) -> LearntGraph:
    """The best DAG and its CPDAG by name, what its edges are worth, and how sets were scored."""
    names = facts.names
    constraints = outcome.constraints or Constraints.none(facts.n_variables)
    edges = constraints.open(outcome.arcs | outcome.arcs.T)
    if outcome.compared is None:
        scored = {
            "score": outcome.curve[-1],
            "score_curve": list(outcome.curve),
            "sets": dict(outcome.sets),
        }
    else:
        scored = {"reveal": "bits", "comparisons": outcome.compared}
    details: dict[str, Any] = (
        scored
        | {"cut_short": outcome.cut_short}
        | row_details(outcome.rows, [names[v] for v in outcome.incomplete])
        | dict(outcome.of_patients)
    )
    if outcome.differences:
        details[DIFFERING] = details_of(outcome.differences, names)
    details |= details_of_curves(outcome.curved, names)
    conclusion = LearntGraph.of_dag(
        names,
        outcome.dag,
        cpdag=outcome.arcs,
        open_edges=facts.determined.without_direction(edges, by_scores=True),
        evidence=_evidence(outcome, names),
        details=details,
    )
    return conclusion.with_replicates(outcome.bootstrap)


def graphs_that_fit(outcome: FedBOSSOutcome, facts: Facts) -> GraphSample | None:
    """Graphs that fit the disclosed moments; None of other scores, or where they cannot be drawn.

    Leaks:
        Nothing beyond these moments: every site draws the same graphs from the run's seed.
    """
    moments, p = outcome.moments, facts.n_variables
    if moments is None or not (1 < p <= MOST_SAMPLED and moments.rows >= p + SPARE_ROWS):
        return None
    constraints = outcome.constraints or Constraints.none(p)
    rng = np.random.default_rng([facts.seed, *SAMPLE.encode()])
    arcs = draw_graphs(moments.correlations, moments.rows, constraints, rng)
    return GraphSample(facts.names, arcs)


def reported(conclusion: LearntGraph, *, pooled: bool) -> Report:
    """The score in a sentence, its curve, and the confidence of every edge.

    ``pooled`` says whether rows of all sites were to be scored as if of one site.
    """
    details = conclusion.details
    mixes = pooled and not details.get("sets", {}).get("sites")
    taken = TAKEN_FOR_EDGES.format("Scores of all sites' rows take", "without --no-within-sites")
    panels, note = _of_search(details)
    steps: tuple[str, ...] = ()
    limits = (*[CUT_SHORT] * details["cut_short"], *[BETWEEN] * mixes)
    if (sample := conclusion.sample) is not None:
        panels, steps = (_sure(sample), *panels), (OVER_GRAPHS,)
        limits = (*limits, *_disputed(conclusion.graph, sample))
    elif details.get("sets") == {}:  # scores from moments
        limits = (*limits, NOT_DRAWN.format(most=MOST_SAMPLED, more=SPARE_ROWS))
    elif conclusion.confidences is None:
        limits = (*limits, UNSURE)
    report = Report(panels=panels, notes=(note,), limits=limits, steps=steps)
    report += differences_report(details, taken if mixes else "")
    report += Report(warnings=tuple(curve_warnings(details)))
    report += order_report(conclusion.graph.nodes, conclusion.graph.edges)
    if conclusion.confidences is not None:
        report += conclusion.confidences.report(conclusion.graph)
    return report


def _disputed(graph: CausalGraph, sample: GraphSample) -> Iterator[str]:
    """A sentence on the arrows, or edges, that most graphs that fit do not have."""
    few = [
        f"{edge.source} {edge.mark} {edge.target}"
        for edge in graph.edges
        for there, back in [sample.shares(edge.source, edge.target)]
        if there + back * (edge.mark != "-->") < MAJORITY
    ]
    if few:
        yield DISPUTED.format(edges=first_of(few))


def _sure(sample: GraphSample) -> HeatMap:
    """In how many graphs each variable causes each other one."""
    shares = [
        tuple(None if x == z else round(float(share), 2) for z, share in enumerate(row))
        for x, row in enumerate(sample.causes)
    ]
    return HeatMap(
        title="What causes what, in how many graphs",
        note=IN_GRAPHS.format(n=len(sample)),
        rows=sample.nodes,
        columns=sample.nodes,
        values=tuple(shares),
    )


def _of_search(details: Mapping[str, Any]) -> tuple[tuple[Panel, ...], Note]:
    """The curve of the score, and what was scored or compared in words."""
    if "comparisons" in details:
        count = details["comparisons"]
        return (), Note(f"{count} comparisons of two scores over all sites; no score was disclosed")
    curve = details["score_curve"]
    found, first = f"{curve[-1]:.3f} after {len(curve)} starts", f"the first {curve[0]:.3f}"
    said = f"Score (log likelihood) {found} ({first})"
    counts = tuple(
        f"{count} {SCORED[method]}" for method, count in details["sets"].items() if count
    )
    return (_curve(curve),), Note(said, counts)


def _curve(curve: Sequence[float]) -> Curves:
    points = tuple((float(number), score) for number, score in enumerate(curve, start=1))
    return Curves(
        title="Score of the best graph",
        note=RISES,
        x_label="starts of the search",
        y_label="score, in units of log likelihood",
        series=(Series("best so far", points),),
    )


def _evidence(outcome: FedBOSSOutcome, names: Sequence[str]) -> GraphEvidence:
    worth = {frozenset((u, v)): (u, v, nats) for u, v, nats in outcome.worth}
    parents = {v: [u for u, w, _ in outcome.worth if w == v] for _, v, _ in outcome.worth}
    index = {name: position for position, name in enumerate(names)}
    edges = []
    for edge in CausalGraph.from_arcs(names, outcome.arcs).edges:
        a, b = index[edge.source], index[edge.target]
        by_knowledge = given_of(outcome.constraints, a, b)
        if outcome.compared is not None:
            tested = outcome.by_tests is not None and outcome.by_tests[a, b]
            by_scores = NOT_COMPARED if outcome.cut_short else BY_COMPARISON
            fact = GIVEN[by_knowledge] if by_knowledge else BY_TESTS if tested else by_scores
            edges.append(
                EdgeEvidence(edge.source, edge.target, 0.0, "", (fact,), known=by_knowledge)
            )
            continue
        if (scored := worth.get(frozenset((a, b)))) is None:
            continue
        u, v, nats = scored
        effect = outcome.effects.get((u, v))
        given = tuple(sorted(names[w] for w in parents[v] if w != u))
        facts = [GIVEN[by_knowledge]] if by_knowledge else []
        if effect is not None:
            under = ", ".join(given) or "nothing"
            facts.append(f"{str(effect).capitalize()}, given {under}.")
        edges.append(
            EdgeEvidence(
                source=edge.source,
                target=edge.target,
                strength=nats,
                shown=f"{nats:.1f}",
                facts=tuple(facts),
                given=given if effect is not None else (),
                effect=effect,
                known=by_knowledge,
            )
        )
    measure = MEASURE if outcome.compared is None else ""
    return GraphEvidence(measure=measure, edges=tuple(edges))
