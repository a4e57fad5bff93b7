"""Secure federated causal discovery: sites learn one graph, the coordinator only learns sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cipherdag.algorithms.describe.algorithm import Describe
    from cipherdag.algorithms.effect.algorithm import Effect
    from cipherdag.algorithms.fedboss.algorithm import FedBOSS
    from cipherdag.algorithms.fedcd.algorithm import FedCD
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
    from cipherdag.algorithms.fedfci.algorithm import FedFCI
    from cipherdag.algorithms.fedpc.algorithm import FedPC
    from cipherdag.algorithms.graphcheck.algorithm import GraphCheck
    from cipherdag.algorithms.rfcd.algorithm import RFcd
    from cipherdag.algorithms.survival.algorithm import Survival
    from cipherdag.errors import CipherdagError
    from cipherdag.federation.simulated import Federation
    from cipherdag.federation.site import Site
    from cipherdag.graphs.graph import CPDAG, MPDAG, CausalGraph
    from cipherdag.graphs.knowledge import Knowledge
    from cipherdag.graphs.pag import PAG, PartialMixedGraph
    from cipherdag.results.description_result import DescriptionResult
    from cipherdag.results.effect_result import EffectResult
    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.results.graph_check_result import GraphCheckResult
    from cipherdag.results.pag_result import PAGResult
    from cipherdag.results.result import Result
    from cipherdag.results.survival_result import SurvivalResult
    from cipherdag.sites.drafts.inference import infer_schema
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.table.schema import Schema

__all__ = [
    "CPDAG",
    "MPDAG",
    "PAG",
    "CausalGraph",
    "CipherdagError",
    "Describe",
    "DescriptionResult",
    "Effect",
    "EffectResult",
    "FeatureResult",
    "FedBOSS",
    "FedCD",
    "FedCMFS",
    "FedFCI",
    "FedPC",
    "Federation",
    "GraphCheck",
    "GraphCheckResult",
    "Knowledge",
    "PAGResult",
    "PartialMixedGraph",
    "Policy",
    "RFcd",
    "Result",
    "Schema",
    "Site",
    "Survival",
    "SurvivalResult",
    "infer_schema",
]

_HOMES = {
    "CPDAG": "cipherdag.graphs.graph",
    "CausalGraph": "cipherdag.graphs.graph",
    "CipherdagError": "cipherdag.errors",
    "Describe": "cipherdag.algorithms.describe.algorithm",
    "DescriptionResult": "cipherdag.results.description_result",
    "Effect": "cipherdag.algorithms.effect.algorithm",
    "EffectResult": "cipherdag.results.effect_result",
    "FeatureResult": "cipherdag.results.feature_result",
    "FedBOSS": "cipherdag.algorithms.fedboss.algorithm",
    "FedCD": "cipherdag.algorithms.fedcd.algorithm",
    "FedCMFS": "cipherdag.algorithms.fedcmfs.algorithm",
    "FedFCI": "cipherdag.algorithms.fedfci.algorithm",
    "FedPC": "cipherdag.algorithms.fedpc.algorithm",
    "Federation": "cipherdag.federation.simulated",
    "GraphCheck": "cipherdag.algorithms.graphcheck.algorithm",
    "GraphCheckResult": "cipherdag.results.graph_check_result",
    "Knowledge": "cipherdag.graphs.knowledge",
    "MPDAG": "cipherdag.graphs.graph",
    "PAG": "cipherdag.graphs.pag",
    "PAGResult": "cipherdag.results.pag_result",
    "PartialMixedGraph": "cipherdag.graphs.pag",
    "Policy": "cipherdag.sites.policy.policy",
    "RFcd": "cipherdag.algorithms.rfcd.algorithm",
    "Result": "cipherdag.results.result",
    "Schema": "cipherdag.sites.table.schema",
    "Site": "cipherdag.federation.site",
    "Survival": "cipherdag.algorithms.survival.algorithm",
    "SurvivalResult": "cipherdag.results.survival_result",
    "infer_schema": "cipherdag.sites.drafts.inference",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``cipherdag --help`` stays fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cipherdag' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
