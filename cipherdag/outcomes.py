"""How an algorithm starts, and the result that its outcome by position stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.result import Result

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cipherdag.algorithms.fedcd import FedCD, FedCDOutcome
    from cipherdag.algorithms.fedcmfs import FedCMFS, FedCMFSOutcome
    from cipherdag.algorithms.fedpc import FedPC, FedPCOutcome
    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.algorithms.questions import FloatVector, Question
    from cipherdag.feature_result import FeatureResult

    Algorithm = FedPC | FedCMFS | FedCD
    Outcome = FedPCOutcome | FedCMFSOutcome | FedCDOutcome


def asking(
    algorithm: Algorithm, *, n_variables: int, n_sites: int, labels: tuple[int, ...], seed: int
) -> Generator[Question, FloatVector, Outcome]:
    """The algorithm as a generator: yields questions, receives sums, returns its outcome.

    Args:
        algorithm: Its parameters.
        n_variables: Number of aligned variables.
        n_sites: Size of the cohort.
        labels: Positions of the labels of a multi-label study.
        seed: Seed of what the algorithm draws.
    """
    from cipherdag.algorithms.fedcmfs import FedCMFS

    if isinstance(algorithm, FedCMFS):
        return algorithm.ask(n_variables, labels)
    return asking_for_graph(algorithm, n_variables=n_variables, n_sites=n_sites, seed=seed)


def asking_for_graph(
    algorithm: FedPC | FedCD, *, n_variables: int, n_sites: int, seed: int
) -> Generator[Question, FloatVector, FedPCOutcome | FedCDOutcome]:
    """The same of an algorithm that learns a graph."""
    from cipherdag.algorithms.fedcd import FedCD

    if isinstance(algorithm, FedCD):
        return algorithm.ask(n_variables, n_sites, seed=seed)
    return algorithm.ask(n_variables, n_sites)


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
    details = named_details(outcome, names)
    return Result(graph=graph, dag=dag, dag_note=note, details=details, **facts)


def named_graphs(
    outcome: FedPCOutcome | FedCDOutcome, names: Sequence[str]
) -> tuple[CausalGraph, CausalGraph, str]:
    """The learnt graph and its DAG by name, and what the DAG had to give up."""
    from cipherdag.algorithms.extension import acyclic_extension
    from cipherdag.algorithms.fedcd import FedCDOutcome
    from cipherdag.algorithms.graphs import CausalGraph

    if isinstance(outcome, FedCDOutcome):
        dag = CausalGraph.from_arcs(tuple(names), outcome.arcs)
        cut = ", ".join(f"{names[e.source]} --> {names[e.target]}" for e in outcome.cut)
        note = f"Left out, since it would close a cycle of stronger edges: {cut}" if cut else ""
        return dag, dag, note
    graph = CausalGraph.from_arcs(tuple(names), outcome.arcs)
    extension = acyclic_extension(outcome.arcs)
    dag = CausalGraph.from_arcs(tuple(names), extension.arcs)
    if extension.consistent:
        return graph, dag, ""
    turned = ", ".join(f"{names[a]} --> {names[b]}" for a, b in extension.reversed_edges)
    change = f"it turns round {turned}" if turned else "it has other colliders than the graph"
    note = "No DAG has this graph's edges and colliders (the sites' evidence conflicts)"
    return graph, dag, f"{note}; the DAG given is acyclic, but {change}."


def named_details(outcome: FedPCOutcome | FedCDOutcome, names: Sequence[str]) -> dict[str, Any]:
    """What an algorithm says beyond the graph, for ``result.json``."""
    from cipherdag.algorithms.fedcd import FedCDOutcome

    if not isinstance(outcome, FedCDOutcome):
        return {}
    cut = [
        {"from": names[e.source], "to": names[e.target], "belief": e.belief} for e in outcome.cut
    ]
    return {
        "belief": {
            name: dict(zip(names, row, strict=True))
            for name, row in zip(names, outcome.belief.tolist(), strict=True)
        },
        "edge_entropy": list(outcome.entropies),
        "agreed": outcome.agreed,
        "cut": cut,
    }
