"""How an algorithm starts, and the result that its outcome by position stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.errors import ParameterError, SchemaError
from cipherdag.fedpc_evidence import fedpc_report
from cipherdag.result import Result

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from cipherdag.algorithms.fedcd import FedCD, FedCDOutcome
    from cipherdag.algorithms.fedcmfs import FedCMFS, FedCMFSOutcome
    from cipherdag.algorithms.fedpc import FedPC
    from cipherdag.algorithms.fedpc_outcome import FedPCOutcome
    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.algorithms.questions import FloatVector, Question
    from cipherdag.algorithms.rfcd import RFcd, RFcdOutcome
    from cipherdag.feature_result import FeatureResult

    Algorithm = FedPC | FedCMFS | RFcd | FedCD
    Outcome = FedPCOutcome | FedCMFSOutcome | RFcdOutcome | FedCDOutcome

MARK_LABELS = "Write label = true for the labels in schema.toml, or name them with --labels."


def make_algorithm(name: str, parameters: Mapping[str, Any]) -> Algorithm:
    """The algorithm of a name, such as "fedpc", with its parameters.

    Raises:
        ParameterError: There is no such algorithm or parameter, or it is out of its range.
    """
    from cipherdag.algorithms.fedcd import FedCD
    from cipherdag.algorithms.fedcmfs import FedCMFS
    from cipherdag.algorithms.fedpc import FedPC
    from cipherdag.algorithms.knowledge import Knowledge
    from cipherdag.algorithms.rfcd import RFcd

    known: dict[str, type[Algorithm]] = {
        "fedpc": FedPC,
        "fedcmfs": FedCMFS,
        "rfcd": RFcd,
        "fedcd": FedCD,
    }
    if name not in known:
        raise ParameterError(f"there is no algorithm named '{name}'")
    chosen = dict(parameters)
    try:
        if isinstance(chosen.get("knowledge"), dict):  # as a started run writes it down
            chosen["knowledge"] = Knowledge.from_lists(**chosen["knowledge"])
        return known[name](**chosen)
    except TypeError as error:
        raise ParameterError(f"'{name}' has no such parameters") from error


def asking(
    algorithm: Algorithm,
    *,
    n_variables: int,
    n_sites: int,
    labels: tuple[int, ...],
    names: Sequence[str],
    seed: int,
) -> Generator[Question, FloatVector, Outcome]:
    """The algorithm as a generator: yields questions, receives sums, returns its outcome.

    Args:
        algorithm: Its parameters.
        n_variables: Number of aligned variables.
        n_sites: Size of the cohort.
        labels: Positions of the labels of a multi-label study.
        names: The variables in the order of their positions.
        seed: Seed of what the algorithm draws.

    Raises:
        SchemaError: FedCMFS, and there is no label.
    """
    from cipherdag.algorithms.fedcd import FedCD
    from cipherdag.algorithms.fedcmfs import FedCMFS
    from cipherdag.algorithms.rfcd import RFcd

    if isinstance(algorithm, FedCD):
        return algorithm.ask(n_variables, n_sites, seed=seed)
    if isinstance(algorithm, FedCMFS):
        if not labels:
            raise SchemaError("no column is marked as a label", remedy=MARK_LABELS)
        return algorithm.ask(n_variables, labels)
    if isinstance(algorithm, RFcd):
        return algorithm.ask(n_variables, n_sites)
    return algorithm.ask(n_variables, n_sites, names, seed=seed)


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
    report = graph_report(
        outcome, names, parameters=facts["parameters"], n_sites=len(facts["sites"])
    )
    return Result(graph=graph, dag=dag, dag_note=note, **report, **facts)


def named_graphs(
    outcome: FedPCOutcome | RFcdOutcome | FedCDOutcome, names: Sequence[str]
) -> tuple[CausalGraph, CausalGraph, str]:
    """The learnt graph and its DAG by name, and what a DAG had to give up."""
    from cipherdag.algorithms.extension import acyclic_extension
    from cipherdag.algorithms.fedcd import FedCDOutcome
    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.algorithms.rfcd import RFcdOutcome

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
    from cipherdag.algorithms.fedcd import FedCDOutcome
    from cipherdag.algorithms.rfcd import RFcdOutcome

    if isinstance(outcome, FedCDOutcome):
        from cipherdag.fedcd_report import report

        return report(outcome, names)
    if isinstance(outcome, RFcdOutcome):
        from cipherdag.rfcd_report import details, panels

        return {"details": details(outcome), "panels": panels(outcome)}
    return fedpc_report(outcome, names, parameters=parameters, n_sites=n_sites)
