"""The algorithms by name: one line each, and nothing else in the package lists them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cipherdag.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.algorithms.algorithm import Algorithm

# names without their classes, so that nothing heavy is imported before one is used
ALGORITHMS = {
    "fedpc": "cipherdag.algorithms.fedpc.algorithm:FedPC",
    "fedcmfs": "cipherdag.algorithms.fedcmfs.algorithm:FedCMFS",
    "rfcd": "cipherdag.algorithms.rfcd.algorithm:RFcd",
    "fedcd": "cipherdag.algorithms.fedcd.algorithm:FedCD",
}


def algorithm_class(name: str) -> type[Algorithm[Any, Any]]:
    """The class of a name, such as "fedpc".

    Raises:
        ParameterError: There is no such algorithm.
    """
    if name not in ALGORITHMS:
        raise ParameterError(f"there is no algorithm named '{name}'")
    module, _, own = ALGORITHMS[name].partition(":")
    found: type[Algorithm[Any, Any]] = getattr(import_module(module), own)
    return found


def make_algorithm(name: str, parameters: Mapping[str, Any]) -> Algorithm[Any, Any]:
    """The algorithm of a name with its parameters, as JSON, TOML or options say them.

    Raises:
        ParameterError: There is no such algorithm or parameter, or it is out of its range.
    """
    from cipherdag.algorithms.parameters import parameters_of

    own = algorithm_class(name)
    known = parameters_of(own)
    kept = dict(pair for pair in parameters.items() if pair not in own.retired.items())
    if unknown := sorted(set(kept) - set(known)):
        raise ParameterError(f"'{name}' has no parameter '{unknown[0]}'")
    return own(**{key: known[key].read(value) for key, value in kept.items()})


def reads_labels(name: str) -> bool:
    """Whether the coordinator of an algorithm has to know which positions are labels."""
    return name in ALGORITHMS and "labels" in algorithm_class(name).reads


def title_of(name: str) -> str:
    """What people call an algorithm; of one that is not registered, its name."""
    return algorithm_class(name).title if name in ALGORITHMS else name
