"""Secure federated causal discovery: sites learn one graph, the coordinator only learns sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cipherdag.algorithms.fedcd import FedCD
    from cipherdag.algorithms.fedcmfs import FedCMFS
    from cipherdag.algorithms.fedpc import FedPC
    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.algorithms.knowledge import Knowledge
    from cipherdag.algorithms.rfcd import RFcd
    from cipherdag.errors import CipherdagError
    from cipherdag.feature_result import FeatureResult
    from cipherdag.federation import Federation, Site
    from cipherdag.result import Result
    from cipherdag.sites.policy import Policy
    from cipherdag.sites.schema import Schema

__all__ = [
    "CausalGraph",
    "CipherdagError",
    "FeatureResult",
    "FedCD",
    "FedCMFS",
    "FedPC",
    "Federation",
    "Knowledge",
    "Policy",
    "RFcd",
    "Result",
    "Schema",
    "Site",
]

_HOMES = {
    "CausalGraph": "cipherdag.algorithms.graphs",
    "CipherdagError": "cipherdag.errors",
    "FeatureResult": "cipherdag.feature_result",
    "FedCD": "cipherdag.algorithms.fedcd",
    "FedCMFS": "cipherdag.algorithms.fedcmfs",
    "FedPC": "cipherdag.algorithms.fedpc",
    "Federation": "cipherdag.federation",
    "Knowledge": "cipherdag.algorithms.knowledge",
    "Policy": "cipherdag.sites.policy",
    "RFcd": "cipherdag.algorithms.rfcd",
    "Result": "cipherdag.result",
    "Schema": "cipherdag.sites.schema",
    "Site": "cipherdag.federation",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``cipherdag --help`` stays fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cipherdag' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
