"""FedBOSS's account of a run: the score along the search, what edges are worth, what was opened.

Leaks:
    Nothing new: scores are functions of what FedBOSS opened; see `FedBOSS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.bootstrap import DRAWN_TWICE, once_more
from cipherdag.algorithms.fedboss.outcome import FedBOSSOutcome
from cipherdag.findings.conclusion import LearntGraph, Note, Report
from cipherdag.findings.confidence import Confidences
from cipherdag.findings.curves import Curves, Series
from cipherdag.findings.few_rows import few_rows_detail, few_rows_warnings
from cipherdag.findings.missing_values import incomplete_detail, scores_warnings
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.knowledge import GIVEN, Constraints, given_of

if TYPE_CHECKING:
    from cipherdag.algorithms.fedboss.algorithm import FedBOSS

MEASURE = "nats that the score falls without the edge"
WAYS = {
    "pooled": "sets of variables were scored from tables over all sites",
    "withheld": "sets were not: some site withholds their table",
    "sites": "sets of variables were scored from the sites' own likelihoods",
}
POOLED = (
    "Of numbers, the means and covariances of all sites' rows together; of categories, the tables "
    "over all sites of the sets of variables that the search looks at."
)
CENTRED = (
    "Of numbers, the covariances within sites, summed over them; a site that restricts small "
    "counts weighs its rows by chance."
)
SITES = (
    "Of sets of variables, how well each site's own distribution explains its rows, summed over "
    "the sites, to a sixteenth of a nat; a site that restricts small counts joins rare categories "
    "and moves it by up to a nat. How many sites have a category is not counted."
)
KINDS = "The kinds of columns, and about where and how widely numbers lie."
RISES = {
    "starts": "The best score so far, after the first search and after every one that started "
    "again from what was best: where it still rises at the end, more starts may find more.",
    "phases": "The score after every phase: insertions, deletions and turns of edges, until none "
    "of them gains.",
}
"""What the curve of the score shows."""
BETWEEN = (
    "Scores are of all sites' rows as if of one site: columns whose levels differ between sites "
    "depend on each other in them. Without --no-within-sites such differences are no evidence."
)
CUT_SHORT = (
    "The budget of rounds or values was spent before the search had seen all it wanted: a longer "
    "one may find a better graph (--max-rounds, --max-values)."
)


def disclosed(own: FedBOSS) -> tuple[str, ...]:
    """What the scores open, in sentences."""
    said: tuple[str, ...] = (POOLED,)
    if own.scores == "sites":
        said = (SITES,)
    elif own.within_sites:
        said = (CENTRED, "Of categories, or where a site misses values: " + SITES)
    elif own.in_place_of_tables:
        said = (
            POOLED,
            "Where a site restricts small counts of categories or of numbers with few values, or "
            "misses values: " + SITES,
        )
    return (*said, KINDS, once_more(own.bootstrap)) if own.bootstrap else (*said, KINDS)


def concluded(outcome: FedBOSSOutcome, facts: Facts) -> LearntGraph:
    """The best DAG and its CPDAG by name, what its edges are worth, and how sets were scored."""
    names, known = facts.names, outcome.known or Constraints.none(facts.n_variables)
    edges = known.open(outcome.arcs | outcome.arcs.T)
    details: dict[str, Any] = (
        {
            "score": outcome.curve[-1],
            "score_curve": list(outcome.curve),
            "sets": dict(outcome.sets),
            "cut_short": outcome.cut_short,
        }
        | incomplete_detail(outcome.incomplete, names)
        | few_rows_detail(outcome.rows)
    )
    if outcome.bootstrap is not None:
        details["bootstrap"] = outcome.bootstrap.details(names)
    found = LearntGraph.of_dag(
        names,
        outcome.dag,
        cpdag=outcome.arcs,
        open_edges=facts.determined.without_direction(edges, by_scores=True),
        evidence=_evidence(outcome, names),
        details=details,
    )
    if outcome.bootstrap is None:
        return found
    drawn_anew = Confidences(details["bootstrap"]).evidence(found.evidence, found.graph)
    return replace(found, evidence=drawn_anew)


def reported(own: FedBOSS, found: LearntGraph) -> Report:
    """The score in a sentence, its curve, and the confidence of every edge."""
    details = found.details
    curve = details["score_curve"]
    steps = "phases" if own.search == "ges" else "starts"
    said = f"Score {curve[-1]:.3f} nats after {len(curve)} {steps} (the first {curve[0]:.3f})"
    ways = tuple(f"{count} {WAYS[way]}" for way, count in details["sets"].items() if count)
    notes, limits = [Note(said, ways)], [CUT_SHORT] if details["cut_short"] else []
    if own.scores == "pooled" and not (own.within_sites or details["sets"].get("sites")):
        limits.append(BETWEEN)
    if "bootstrap" in details:
        notes.append(Confidences(details["bootstrap"]).note(found.graph))
        limits.append(DRAWN_TWICE)
    return Report(
        panels=(_curve(curve, steps),),
        notes=tuple(notes),
        limits=tuple(limits),
        warnings=(*few_rows_warnings(details, len(found.graph.nodes)), *scores_warnings(details)),
    )


def _curve(curve: Sequence[float], steps: str) -> Curves:
    points = tuple((float(number), own) for number, own in enumerate(curve, start=1))
    return Curves(
        title="Score of the best graph",
        note=RISES[steps],
        x_label=f"{steps} of the search",
        y_label="score in nats",
        series=(Series("best so far", points),),
    )


def _evidence(outcome: FedBOSSOutcome, names: Sequence[str]) -> GraphEvidence:
    worth = {frozenset((u, v)): (u, v, own) for u, v, own in outcome.worth}
    parents = {v: [u for u, w, _ in outcome.worth if w == v] for _, v, _ in outcome.worth}
    place = {name: position for position, name in enumerate(names)}
    edges = []
    for edge in CausalGraph.from_arcs(names, outcome.arcs).edges:
        a, b = place[edge.source], place[edge.target]
        if (scored := worth.get(frozenset((a, b)))) is None:
            continue
        u, v, own = scored
        effect, known = outcome.effects.get((u, v)), given_of(outcome.known, a, b)
        given = tuple(sorted(names[w] for w in parents[v] if w != u))
        facts = [GIVEN[known]] if known else []
        if effect is not None:
            under = ", ".join(given) or "nothing"
            facts.append(f"{str(effect).capitalize()}, given {under}.")
        edges.append(
            EdgeEvidence(
                source=edge.source,
                target=edge.target,
                strength=own,
                shown=f"{own:.1f} nats",
                facts=tuple(facts),
                given=given if effect is not None else (),
                effect=effect,
                known=known,
            )
        )
    return GraphEvidence(measure=MEASURE, edges=tuple(edges))
