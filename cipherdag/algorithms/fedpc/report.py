"""FedPC's account of a run: the graph by name, what to know of it, and what was opened.

Leaks:
    Nothing new: votes and supports are sums that FedPC opened; see `FedPC`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.bootstrap import DRAWN_TWICE, once_more
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import details_of
from cipherdag.algorithms.fedpc.graph_evidence import joint_evidence, votes_evidence
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome, WeakestTest
from cipherdag.algorithms.fedpc.triple_evidence import unresolved_triples
from cipherdag.algorithms.fedpc.untested import (
    FALLEN_DETAIL,
    untested_details,
    untested_warnings,
)
from cipherdag.findings.conclusion import LearntGraph, LearntPAG, Report
from cipherdag.findings.confidence import Confidences
from cipherdag.findings.edge_status import undone_warnings
from cipherdag.findings.few_rows import few_rows_detail, few_rows_warnings
from cipherdag.findings.site_differences import (
    DETAIL,
    OWN_DETAIL,
    SiteDifferences,
    own_note,
    own_panel,
)
from cipherdag.findings.unresolved import (
    contradicted,
    unresolved_details,
    unresolved_note,
    unresolved_of,
    unresolved_panel,
)

if TYPE_CHECKING:
    from cipherdag.algorithms.fedfci.algorithm import FedFCI
    from cipherdag.algorithms.fedpc.algorithm import FedPC

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


def concluded(algorithm: FedPC, outcome: FedPCOutcome, facts: Facts) -> LearntGraph:
    """The graph by name with its evidence, and what `reported` makes a report of."""
    names, outcome = facts.names, replace(outcome, weakest=referred(outcome.weakest, facts))
    details: dict[str, Any] = {"evidence": algorithm.decided_by}
    if algorithm.closed:
        details["reveal"] = "bits"
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
    triples = unresolved_triples(outcome, names, algorithm.rule, closed=algorithm.closed)
    details |= unresolved_details(triples)
    if algorithm.test == "kci":
        details["kernel_rows"] = algorithm.kernel_rows
        remark = (
            f"Kernel tests look at no more than {algorithm.kernel_rows} rows of a site, evenly "
            "spaced among its own."
        )
        evidence = replace(evidence, remarks=(*evidence.remarks, remark))
    details |= untested_details(outcome.untested, outcome.fallen, names)
    details |= few_rows_detail(outcome.rows)
    if outcome.differences:
        details[DETAIL] = details_of(outcome.differences, names)
    if outcome.bootstrap is not None:
        details["bootstrap"] = outcome.bootstrap.details(names)
    if outcome.in_class is None:
        found = LearntGraph.in_code_order(names, outcome.arcs, evidence=evidence, details=details)
    else:
        found = LearntGraph.of_dag(
            names,
            outcome.in_class.dag,
            cpdag=outcome.in_class.arcs,
            open_edges=outcome.undirected,
            dag_note=contradicted(triples),
            evidence=evidence,
            details=details,
        )
    if outcome.bootstrap is None:
        return found
    drawn_anew = Confidences(details["bootstrap"]).evidence(evidence, found.graph)
    return replace(found, evidence=drawn_anew)


def referred(
    weakest: Mapping[tuple[int, int], WeakestTest], facts: Facts
) -> dict[tuple[int, int], WeakestTest]:
    """The tests of edges, whose effects say which categories their signs are of."""
    return {
        pair: replace(own, effect=facts.referred(own.effect, *pair))
        for pair, own in weakest.items()
    }


def evidence_disclosed(algorithm: FedPC | FedFCI) -> tuple[str, ...]:
    """What tests over all sites open."""
    kind = EVIDENCE[algorithm.decided_by]
    said = kind.told(closed=algorithm.closed, p_value_drop=algorithm.rule == "p_value_drop")
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
    fallen = int(found.details.get(FALLEN_DETAIL, {}).get("pairs", 0))
    standing = undone_warnings(found.evidence.edges, fallen)
    few = few_rows_warnings(found.details, len(found.graph.nodes))
    warnings = (*few, *standing, *warnings, *untested_warnings(found.details))
    if triples := unresolved_of(found.details):
        notes.append(unresolved_note(triples))
        panels.append(unresolved_panel(triples))
    return Report(notes=tuple(notes), limits=tuple(limits), panels=tuple(panels), warnings=warnings)
