"""Secure federated causal discovery: sites learn one graph, the coordinator only learns sums."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cipherdag.algorithms.describe.algorithm import Describe as Describe
    from cipherdag.algorithms.effect.algorithm import Effect as Effect
    from cipherdag.algorithms.fedboss.algorithm import FedBOSS as FedBOSS
    from cipherdag.algorithms.fedcd.algorithm import FedCD as FedCD
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS as FedCMFS
    from cipherdag.algorithms.fedfci.algorithm import FedFCI as FedFCI
    from cipherdag.algorithms.fedpc.algorithm import FedPC as FedPC
    from cipherdag.algorithms.graphcheck.algorithm import GraphCheck as GraphCheck
    from cipherdag.algorithms.rfcd.algorithm import RFcd as RFcd
    from cipherdag.algorithms.survival.algorithm import Survival as Survival
    from cipherdag.errors import CipherdagError as CipherdagError
    from cipherdag.federation.progress_line import ProgressLine as ProgressLine
    from cipherdag.federation.simulated import Federation as Federation
    from cipherdag.federation.site import Site as Site
    from cipherdag.findings.description import Description as Description
    from cipherdag.findings.estimated_effect import EstimatedEffect as EstimatedEffect
    from cipherdag.findings.features import SelectedFeatures as SelectedFeatures
    from cipherdag.findings.graph import LearntGraph as LearntGraph
    from cipherdag.findings.graph_check import CheckedGraph as CheckedGraph
    from cipherdag.findings.pag import LearntPAG as LearntPAG
    from cipherdag.findings.survival import SurvivalAnalysis as SurvivalAnalysis
    from cipherdag.graphs.graph import CPDAG as CPDAG
    from cipherdag.graphs.graph import MPDAG as MPDAG
    from cipherdag.graphs.graph import CausalGraph as CausalGraph
    from cipherdag.graphs.knowledge import Knowledge as Knowledge
    from cipherdag.graphs.pag import PAG as PAG
    from cipherdag.graphs.pag import PartialMixedGraph as PartialMixedGraph
    from cipherdag.results.run import Run as Run
    from cipherdag.sites.drafts.inference import infer_schema as infer_schema
    from cipherdag.sites.policy.policy import Policy as Policy
    from cipherdag.sites.table.schema import Schema as Schema

_HOMES = {
    "algorithms.describe.algorithm": "Describe",
    "algorithms.effect.algorithm": "Effect",
    "algorithms.fedboss.algorithm": "FedBOSS",
    "algorithms.fedcd.algorithm": "FedCD",
    "algorithms.fedcmfs.algorithm": "FedCMFS",
    "algorithms.fedfci.algorithm": "FedFCI",
    "algorithms.fedpc.algorithm": "FedPC",
    "algorithms.graphcheck.algorithm": "GraphCheck",
    "algorithms.rfcd.algorithm": "RFcd",
    "algorithms.survival.algorithm": "Survival",
    "errors": "CipherdagError",
    "federation.progress_line": "ProgressLine",
    "federation.simulated": "Federation",
    "federation.site": "Site",
    "findings.description": "Description",
    "findings.estimated_effect": "EstimatedEffect",
    "findings.features": "SelectedFeatures",
    "findings.graph": "LearntGraph",
    "findings.graph_check": "CheckedGraph",
    "findings.pag": "LearntPAG",
    "findings.survival": "SurvivalAnalysis",
    "graphs.graph": "CPDAG CausalGraph MPDAG",
    "graphs.knowledge": "Knowledge",
    "graphs.pag": "PAG PartialMixedGraph",
    "results.run": "Run",
    "sites.drafts.inference": "infer_schema",
    "sites.policy.policy": "Policy",
    "sites.table.schema": "Schema",
}
_PUBLIC = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``cipherdag --help`` stays fast."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'cipherdag' has no attribute {name!r}")
    return getattr(import_module(f"cipherdag.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
