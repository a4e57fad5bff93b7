"""Secure federated causal discovery: sites learn one graph, the coordinator only learns sums."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cipherdag.algorithms.describe.algorithm import Describe
    from cipherdag.algorithms.effect.algorithm import Effect
    from cipherdag.algorithms.fedboss.algorithm import FedBOSS
    from cipherdag.algorithms.fedboss.settings import Scoring
    from cipherdag.algorithms.fedcd.algorithm import FedCD
    from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
    from cipherdag.algorithms.fedfci.algorithm import FedFCI
    from cipherdag.algorithms.fedpc.algorithm import FedPC
    from cipherdag.algorithms.graphcheck.algorithm import GraphCheck
    from cipherdag.algorithms.rfcd.algorithm import RFcd
    from cipherdag.algorithms.survival.algorithm import Survival
    from cipherdag.errors import CipherdagError
    from cipherdag.federation.progress_line import ProgressLine
    from cipherdag.federation.simulated import Federation
    from cipherdag.federation.site import Site
    from cipherdag.findings.description import Description
    from cipherdag.findings.estimated_effect import EstimatedEffect
    from cipherdag.findings.features import SelectedFeatures
    from cipherdag.findings.graph import LearntGraph, LearntPAG
    from cipherdag.findings.graph_check import CheckedGraph
    from cipherdag.findings.survival import SurvivalAnalysis
    from cipherdag.graphs.graph import CPDAG, MPDAG, CausalGraph
    from cipherdag.graphs.knowledge import Knowledge
    from cipherdag.graphs.pag import PAG, PartialMixedGraph
    from cipherdag.questions.local_beliefs import Training
    from cipherdag.results.run import Run
    from cipherdag.sites.drafts.inference import infer_schema
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.table.schema import Schema

__all__ = [
    "CPDAG", "MPDAG", "PAG", "CausalGraph", "CheckedGraph", "CipherdagError", "Describe",
    "Description", "Effect", "EstimatedEffect", "FedBOSS", "FedCD", "FedCMFS", "FedFCI", "FedPC",
    "Federation", "GraphCheck", "Knowledge", "LearntGraph", "LearntPAG", "PartialMixedGraph",
    "Policy", "ProgressLine", "RFcd", "Run", "Schema", "Scoring", "SelectedFeatures", "Site",
    "Survival", "SurvivalAnalysis", "Training", "infer_schema",
]  # fmt: skip
_ALGORITHMS = (
    "Describe", "Effect", "FedBOSS", "FedCD", "FedCMFS", "FedFCI", "FedPC", "GraphCheck", "RFcd",
    "Survival",
)  # fmt: skip
_HOMES = {
    **{f"algorithms.{name.lower()}.algorithm": name for name in _ALGORITHMS},
    "algorithms.fedboss.settings": "Scoring",
    "errors": "CipherdagError",
    "federation.progress_line": "ProgressLine",
    "federation.simulated": "Federation",
    "federation.site": "Site",
    "findings.description": "Description",
    "findings.estimated_effect": "EstimatedEffect",
    "findings.features": "SelectedFeatures",
    "findings.graph": "LearntGraph LearntPAG",
    "findings.graph_check": "CheckedGraph",
    "findings.survival": "SurvivalAnalysis",
    "graphs.graph": "CPDAG CausalGraph MPDAG",
    "graphs.knowledge": "Knowledge",
    "graphs.pag": "PAG PartialMixedGraph",
    "questions.local_beliefs": "Training",
    "results.run": "Run",
    "sites.drafts.inference": "infer_schema",
    "sites.policy.policy": "Policy",
    "sites.table.schema": "Schema",
}
_PUBLIC = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``cipherdag --help`` stays fast."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'cipherdag' has no attribute {name!r}")
    return getattr(import_module(f"cipherdag.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return __all__
