"""FedPC's conclusion: the graph by name with its evidence, and what to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.edge_tests import with_categories
from cipherdag.algorithms.constraint_based.report import details_of_tests
from cipherdag.algorithms.constraint_based.settings import GraphFromTests
from cipherdag.algorithms.fedpc.graph_evidence import (
    joint_evidence,
    unresolved_triples,
    votes_evidence,
)
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.algorithms.fedpc.reference import Reference
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.doubts import contradicted, unresolved_details
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.extension import extension_in_code_order
from cipherdag.graphs.graph import CausalGraph


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
