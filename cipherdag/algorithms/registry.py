"""How an algorithm starts, and the result that its outcome by position stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from cipherdag.algorithms.fedcd.algorithm import FedCD, FedCDOutcome
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS, FedCMFSOutcome
    from cipherdag.algorithms.fedpc.algorithm import FedPC
    from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
    from cipherdag.algorithms.rfcd.algorithm import RFcd, RFcdOutcome
    from cipherdag.questions.question import FloatVector, Question

    Algorithm = FedPC | FedCMFS | RFcd | FedCD
    Outcome = FedPCOutcome | FedCMFSOutcome | RFcdOutcome | FedCDOutcome

MARK_LABELS = "Write label = true for the labels in schema.toml, or name them with --labels."


def make_algorithm(name: str, parameters: Mapping[str, Any]) -> Algorithm:
    """The algorithm of a name, such as "fedpc", with its parameters.

    Raises:
        ParameterError: There is no such algorithm or parameter, or it is out of its range.
    """
    from cipherdag.algorithms.fedcd.algorithm import FedCD
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
    from cipherdag.algorithms.fedpc.algorithm import FedPC
    from cipherdag.algorithms.rfcd.algorithm import RFcd
    from cipherdag.graphs.knowledge import Knowledge

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
    from cipherdag.algorithms.fedcd.algorithm import FedCD
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
    from cipherdag.algorithms.rfcd.algorithm import RFcd

    if isinstance(algorithm, FedCD):
        return algorithm.ask(n_variables, n_sites, seed=seed)
    if isinstance(algorithm, FedCMFS):
        if not labels:
            raise SchemaError("no column is marked as a label", remedy=MARK_LABELS)
        return algorithm.ask(n_variables, labels)
    if isinstance(algorithm, RFcd):
        return algorithm.ask(n_variables, n_sites)
    return algorithm.ask(n_variables, n_sites, names, seed=seed)


ALGORITHMS = {"fedpc": "FedPC", "fedcmfs": "FedCMFS", "rfcd": "RFcd", "fedcd": "Fed-CD"}
