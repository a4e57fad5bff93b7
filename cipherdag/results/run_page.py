"""The report of a run: graph, evidence, accuracy, cost, what left each site, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.pages.rendering import render
from cipherdag.privacy.protections import protection_kind
from cipherdag.results.sentences import site_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cipherdag.findings.panel import Panel
    from cipherdag.graphs.edge_evidence import EdgeEvidence
    from cipherdag.graphs.edges import Edge
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.graphs.metrics import GraphMetrics
    from cipherdag.protocol.progress import RoundReport
    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.results.result import Result
    from cipherdag.results.sentences import Leaving

ARROWS = {"-->": "→", "---": "—"}
MOST_DRAWN = 500  # variables beyond which a drawing of all takes long and shows little
AS_IN_TRUTH, NOT_IN_TRUTH = "as in the truth", "not in the truth"


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """An edge of the report: its number, its evidence, and what the truth says of it."""

    number: int
    edge: Edge
    evidence: EdgeEvidence | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds that ask the same, one after the other."""

    first: int
    last: int
    label: str
    values: int
    bytes: int
    seconds: float
    n_sites: int
    n_cohort: int


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A site of the report.

    Attributes:
        name: Its name.
        sent: Bytes that left it.
        left_in: Round in which it left the run; 0 if it stayed.
        records: Records of its ledger, as it reported on closing.
        head: Hash of the last.
        checked: What the check of its ledger found; empty where the ledger stays at the site.
        broken: Whether that check failed.
        sentences: What left it.
    """

    name: str
    sent: int
    left_in: int
    records: int
    head: str
    checked: str
    broken: bool
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What left a site in a round, as the coordinator counted it; see `terminal.Leaving`."""

    kind: str
    protection: str
    sites: int
    values: int
    bytes: int
    round: int


def run_page(
    result: Result | FeatureResult,
    *,
    truth: CausalGraph | None = None,
    written: datetime | None = None,
    panels: Sequence[Panel] = (),
) -> str:
    """The report as one HTML page.

    Args:
        result: The result of a run.
        truth: A true DAG, to say how accurate the graph is.
        written: When the page is written, in UTC; not shown if None.
        panels: What to show beside the algorithm's own panels.

    Returns:
        The page; it needs no other file and asks no other machine for anything.
    """
    from cipherdag.results.disclosures import learnt_sentences, limit_sentences
    from cipherdag.results.result import Result

    sites = [_site(result, site) for site in result.sites]
    own = _graph_content(result, truth) if isinstance(result, Result) else _features(result)
    name = ALGORITHMS.get(result.algorithm, result.algorithm)
    return render(
        "run.html.j2",
        title=f"{name} over {len(result.sites)} site{'s' * (len(result.sites) != 1)}",
        result=result,
        began=_began(result),
        written=written.isoformat() if written else "",
        sites=sites,
        released=_released(sites),
        stages=_stages(result.rounds),
        widest=max((report_bytes(report) for report in result.rounds), default=0),
        round_bytes=report_bytes,
        protection=protection_kind(result.protection),
        learnt=learnt_sentences(result),
        limits=limit_sentences(result, has_truth=truth is not None),
        panels=(*own.pop("panels"), *panels),
        **own,
    )


def report_bytes(report: RoundReport) -> int:
    """Bytes that left the site that sent most in a round."""
    return max(report.bytes_sent_per_site.values(), default=0)


def _graph_content(result: Result, truth: CausalGraph | None) -> dict[str, Any]:
    from cipherdag.algorithms.fedcd.belief_panels import belief_evidence, belief_panels
    from cipherdag.graphs.drawing.communities import overview
    from cipherdag.graphs.drawing.picture import graph_picture, overview_picture

    evidence = result.evidence
    if not evidence.edges:
        evidence = belief_evidence(result.details, result.graph)
    known = {(edge.source, edge.target): edge for edge in evidence.edges}
    true = _comparable(result, truth)
    shown = overview(result.graph)
    whole = len(result.graph.nodes) <= MOST_DRAWN
    return {
        "kind": "graph",
        "picture": graph_picture(result.graph, known) if whole else None,
        "overview": overview_picture(shown) if shown.collapsed else None,
        "arrows": ARROWS,
        "evidence": evidence,
        "panels": (*result.panels, *belief_panels(result.details)),
        "edges": _edge_rows(result, known, true),
        "missing": _missing(result, true),
        "metrics": _metrics(result, truth),
    }


def _features(result: FeatureResult) -> dict[str, Any]:
    strengths = [own.strength for chosen in result.features.values() for own in chosen]
    return {
        "kind": "features",
        "panels": (),
        "strongest": max(strengths, default=0.0),
        "n_features": len(result.identifiers) - len(result.features),
    }


def _edge_rows(
    result: Result, known: dict[tuple[str, str], EdgeEvidence], true: CausalGraph | None
) -> list[EdgeRow]:
    return [
        EdgeRow(
            number=number,
            edge=edge,
            evidence=known.get((edge.source, edge.target)),
            verdict="" if true is None else _verdict(edge, true),
        )
        for number, edge in enumerate(result.graph.edges, start=1)
    ]


def _verdict(edge: Edge, true: CausalGraph) -> str:
    a, b = true.nodes.index(edge.source), true.nodes.index(edge.target)
    there, back = bool(true.arcs[a, b]), bool(true.arcs[b, a])
    if not (there or back):
        return NOT_IN_TRUTH
    if there and back == (edge.mark == "---"):
        return AS_IN_TRUTH
    source, target = (edge.source, edge.target) if there else (edge.target, edge.source)
    return f"truth: {source} {ARROWS['---' if there and back else '-->']} {target}"


def _comparable(result: Result, truth: CausalGraph | None) -> CausalGraph | None:
    """The true DAG where the learnt graph tells more than a CPDAG can, else the true CPDAG."""
    if truth is None:
        return None
    graph = result.graph
    return truth if graph.is_dag and graph.to_cpdag() != graph else truth.to_cpdag()


def _missing(result: Result, true: CausalGraph | None) -> list[Edge]:
    """Edges of the truth between variables that the learnt graph does not join."""
    if true is None:
        return []
    joined = {frozenset((edge.source, edge.target)) for edge in result.graph.edges}
    return [edge for edge in true.edges if frozenset((edge.source, edge.target)) not in joined]


def _metrics(result: Result, truth: CausalGraph | None) -> dict[str, GraphMetrics]:
    if truth is None:
        return {}
    return {
        "as a CPDAG": result.metrics_cpdag(truth),
        "as a DAG": result.metrics(truth),
    }


def _site(result: Result | FeatureResult, name: str) -> SiteRow:
    from cipherdag.errors import LedgerError
    from cipherdag.sites.record.ledger import read_releases, verify_ledger

    lines, head = result.ledgers.get(name), result.heads.get(name)
    checked, broken = "", False
    leaving: Sequence[Leaving]
    if lines is None:
        leaving = [
            Left(r.kind, result.protection, r.n_sites, r.values, sent, r.number)
            for r in result.rounds
            if (sent := r.bytes_sent_per_site.get(name))
        ]
    else:
        leaving = read_releases(lines)
        try:
            found = verify_ledger(lines, identity=head.identity if head else None)
            broken = head is not None and found != head
            checked = "does not end as the site reported" if broken else "unbroken and signed"
        except LedgerError as error:
            checked, broken = error.message, True
    return SiteRow(
        name=name,
        sent=result.bytes_sent_per_site.get(name, 0),
        left_in=next((own.round for own in result.dropouts if own.site == name), 0),
        records=head.records if head else 0,
        head=head.hash if head else "",
        checked=checked,
        broken=broken,
        sentences=tuple(site_sentences(leaving)),
    )


def _released(sites: Sequence[SiteRow]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Names of sites that released the same, and what that was."""
    found: dict[tuple[str, ...], list[str]] = {}
    for site in sites:
        found.setdefault(site.sentences, []).append(site.name)
    return [(names, sentences) for sentences, names in found.items()]


def _stages(rounds: Sequence[RoundReport]) -> list[Stage]:
    stages = []
    for (label, n_sites, n_cohort), group in groupby(
        rounds, key=lambda report: (report.label, report.n_sites, report.n_cohort)
    ):
        own = list(group)
        stages.append(
            Stage(
                first=own[0].number,
                last=own[-1].number,
                label=label,
                values=sum(report.values for report in own),
                bytes=sum(report_bytes(report) for report in own),
                seconds=sum(report.seconds for report in own),
                n_sites=n_sites,
                n_cohort=n_cohort,
            )
        )
    return stages


def _began(result: Result | FeatureResult) -> str:
    """Time of the first record of any ledger; empty where ledgers stay at the sites."""
    from cipherdag.sites.record.ledger import read_releases

    times = [read_releases(lines[:1])[0].time for lines in result.ledgers.values() if lines]
    return min(times, default="")
