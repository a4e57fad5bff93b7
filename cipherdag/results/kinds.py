"""The kinds of results, one line each: what a conclusion becomes, and what a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cipherdag.findings.conclusion import Finding, LearntGraph, LearntPAG, SelectedFeatures
from cipherdag.findings.description import Description
from cipherdag.findings.effect import EstimatedEffect
from cipherdag.findings.graph_check import CheckedGraph
from cipherdag.findings.survival import SurvivalAnalysis
from cipherdag.results.description_result import DescriptionResult
from cipherdag.results.effect_result import EffectResult
from cipherdag.results.feature_result import FeatureResult
from cipherdag.results.folder import kind_of, read_report
from cipherdag.results.graph_check_result import GraphCheckResult
from cipherdag.results.graph_run import GraphRun
from cipherdag.results.pag_result import PAGResult
from cipherdag.results.result import Result
from cipherdag.results.run import Run
from cipherdag.results.survival_result import SurvivalResult

KINDS: dict[type, type[Run]] = {
    LearntGraph: Result,
    LearntPAG: PAGResult,
    SelectedFeatures: FeatureResult,
    Description: DescriptionResult,
    SurvivalAnalysis: SurvivalResult,
    EstimatedEffect: EffectResult,
    CheckedGraph: GraphCheckResult,
}


def run_of(conclusion: Finding, **facts: Any) -> Run:
    """The result of a run that came to a conclusion; ``facts`` are the fields of `Run`."""
    return KINDS[type(conclusion)](**vars(conclusion), **facts)


def load_run(folder: Path) -> Run:
    """The result that a folder holds, of whatever kind.

    Raises:
        OutputError: The folder holds no readable result.
    """
    kind = kind_of(read_report(folder))
    (own,) = (own for own in KINDS.values() if own.kind == kind)
    return own.load(folder)


def load_graph(folder: Path) -> GraphRun:
    """The result that a folder holds, if it is a learnt graph.

    Raises:
        OutputError: The folder holds no readable result, or another kind of it.
    """
    found = load_run(folder)
    # of another kind Result.load says what to do
    return found if isinstance(found, GraphRun) else Result.load(folder)
