"""How an algorithm starts, and the result that its outcome by position stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.result import Result

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cipherdag.algorithms.fedcmfs import FedCMFS, FedCMFSOutcome
    from cipherdag.algorithms.fedpc import FedPC, FedPCOutcome
    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.algorithms.questions import FloatVector, Question
    from cipherdag.feature_result import FeatureResult

    Algorithm = FedPC | FedCMFS
    Outcome = FedPCOutcome | FedCMFSOutcome


def asking(
    algorithm: Algorithm,
    *,
    n_variables: int,
    n_sites: int,
    labels: tuple[int, ...],
    names: Sequence[str],
) -> Generator[Question, FloatVector, Outcome]:
    """The algorithm as a generator: yields questions, receives sums, returns its outcome.

    Args:
        algorithm: Its parameters.
        n_variables: Number of aligned variables.
        n_sites: Size of the cohort.
        labels: Positions of the labels of a multi-label study.
        names: The variables in the order of their positions.
    """
    from cipherdag.algorithms.fedcmfs import FedCMFS

    if isinstance(algorithm, FedCMFS):
        return algorithm.ask(n_variables, labels)
    return algorithm.ask(n_variables, n_sites, names)


def named_result(outcome: Outcome, names: Sequence[str], **facts: Any) -> Result | FeatureResult:
    """The result of an outcome.

    Args:
        outcome: What an algorithm concluded.
        names: The variables, or their identifiers, in the order of their positions.
        facts: The fields that every result has.
    """
    from cipherdag.algorithms.fedcmfs import FedCMFSOutcome

    if isinstance(outcome, FedCMFSOutcome):
        from cipherdag.feature_result import FeatureResult

        return FeatureResult.of(outcome, names, **facts)
    graph, dag, note = named_graphs(outcome, names)
    return Result(graph=graph, dag=dag, dag_note=note, tests=outcome.tests, **facts)


def named_graphs(
    outcome: FedPCOutcome, names: Sequence[str]
) -> tuple[CausalGraph, CausalGraph, str]:
    """The CPDAG and its DAG by name, and what a DAG had to give up if it has no extension."""
    from cipherdag.algorithms.extension import acyclic_extension
    from cipherdag.algorithms.graphs import CausalGraph

    graph = CausalGraph.from_arcs(tuple(names), outcome.arcs)
    extension = acyclic_extension(outcome.arcs)
    dag = CausalGraph.from_arcs(tuple(names), extension.arcs)
    if extension.consistent:
        return graph, dag, ""
    turned = ", ".join(f"{names[a]} --> {names[b]}" for a, b in extension.reversed_edges)
    change = f"it turns round {turned}" if turned else "it has other colliders than the graph"
    note = "No DAG has this graph's edges and colliders (the sites' evidence conflicts)"
    return graph, dag, f"{note}; the DAG given is acyclic, but {change}."
