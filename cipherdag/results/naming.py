"""From an outcome by position to a result by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.fedpc.report import fedpc_report
from cipherdag.results.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.algorithms.fedcd.algorithm import FedCDOutcome
    from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
    from cipherdag.algorithms.registry import Outcome
    from cipherdag.algorithms.rfcd.algorithm import RFcdOutcome
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.results.feature_result import FeatureResult


def named_result(outcome: Outcome, names: Sequence[str], **facts: Any) -> Result | FeatureResult:
    """The result of an outcome.

    Args:
        outcome: What an algorithm concluded.
        names: The variables, or their identifiers, in the order of their positions.
        facts: The fields that every result has.
    """
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFSOutcome

    if isinstance(outcome, FedCMFSOutcome):
        from cipherdag.results.feature_result import FeatureResult

        return FeatureResult.of(outcome, names, **facts)
    graph, dag, note = named_graphs(outcome, names)
    report = graph_report(
        outcome, names, parameters=facts["parameters"], n_sites=len(facts["sites"])
    )
    return Result(graph=graph, dag=dag, dag_note=note, **report, **facts)


def named_graphs(
    outcome: FedPCOutcome | RFcdOutcome | FedCDOutcome, names: Sequence[str]
) -> tuple[CausalGraph, CausalGraph, str]:
    """The learnt graph and its DAG by name, and what a DAG had to give up."""
    from cipherdag.algorithms.fedcd.algorithm import FedCDOutcome
    from cipherdag.algorithms.rfcd.algorithm import RFcdOutcome
    from cipherdag.graphs.extension import acyclic_extension
    from cipherdag.graphs.graph import CausalGraph

    graph = CausalGraph.from_arcs(tuple(names), outcome.arcs)
    if isinstance(outcome, FedCDOutcome):
        cut = ", ".join(f"{names[e.source]} --> {names[e.target]}" for e in outcome.cut)
        note = f"Left out, since it would close a cycle of stronger edges: {cut}" if cut else ""
        return graph, graph, note
    if isinstance(outcome, RFcdOutcome):
        return graph, CausalGraph.from_arcs(tuple(names), outcome.dag), ""
    extension = acyclic_extension(outcome.arcs)
    dag = CausalGraph.from_arcs(tuple(names), extension.arcs)
    if extension.consistent:
        return graph, dag, ""
    turned = ", ".join(f"{names[a]} --> {names[b]}" for a, b in extension.reversed_edges)
    change = f"it turns round {turned}" if turned else "it has other colliders than the graph"
    note = "No DAG has this graph's edges and colliders (the sites' evidence conflicts)"
    return graph, dag, f"{note}; the DAG given is acyclic, but {change}."


def graph_report(
    outcome: FedPCOutcome | RFcdOutcome | FedCDOutcome,
    names: Sequence[str],
    *,
    parameters: Mapping[str, Any],
    n_sites: int,
) -> dict[str, Any]:
    """What an algorithm reports beside its graph: fields of `Result`."""
    from cipherdag.algorithms.fedcd.algorithm import FedCDOutcome
    from cipherdag.algorithms.rfcd.algorithm import RFcdOutcome

    if isinstance(outcome, FedCDOutcome):
        from cipherdag.algorithms.fedcd.report import report

        return report(outcome, names)
    if isinstance(outcome, RFcdOutcome):
        from cipherdag.algorithms.rfcd.report import details, panels

        return {"details": details(outcome), "panels": panels(outcome)}
    return fedpc_report(outcome, names, parameters=parameters, n_sites=n_sites)
