"""Plain text for people: progress lines, results, what left each site, and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.pages.numerals import size
from cipherdag.results.sentences import dropout_line, dropout_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.errors import CipherdagError
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.graphs.metrics import GraphMetrics
    from cipherdag.protocol.progress import RoundReport
    from cipherdag.results.feature_result import FeatureResult
    from cipherdag.results.result import Result


def heading(algorithm: str, n_sites: int, protection: str) -> str:
    """The line above the rounds."""
    return f"{algorithm} · {n_sites} sites · {protection}"


def round_line(report: RoundReport) -> str:
    """One line per finished round."""
    out = max(report.bytes_sent_per_site.values(), default=0)
    return (
        f"round {report.number:<3} {report.label:<44} {report.values:>8} values   "
        f"{report.n_sites}/{report.n_cohort} sites   {report.seconds:5.1f} s   "
        f"{size(out)} out per site"
    )


def report_lines(report: RoundReport) -> list[str]:
    """One line for a finished round, and four for every site that left since the one before."""
    return [round_line(report), *(line for left in report.left for line in dropout_lines(left))]


def graph_lines(graph: CausalGraph, *, most: int = 60) -> list[str]:
    """The edges in the field's marks, cut after ``most`` lines."""
    lines = str(graph).splitlines() if graph.edges else ["(no edge)"]
    return shortened(lines, "edges", most=most)


def confidence_lines(result: Result) -> list[str]:
    """Every edge with the share of replicates that have it, as drawn and in any way."""
    from cipherdag.findings.confidence import Confidences

    known = Confidences(result.details["bootstrap"])
    lines = []
    for edge in result.graph.edges:
        exact, any_edge = known.shares(edge)
        lines.append(f"  {exact:4.2f} {any_edge:4.2f}   {edge.source} {edge.mark} {edge.target}")
    count = result.details["bootstrap"]["replicates"]
    title = f"Share of {count} replicates that have the edge, and that join the two at all:"
    return [title, *shortened(lines, "edges")]


def shortened(lines: list[str], what: str, *, most: int = 60) -> list[str]:
    """The lines, cut after ``most`` of them."""
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"... and {len(lines) - most} more {what}"]


def result_lines(result: Result, truth: CausalGraph | None = None) -> list[str]:
    """Graph, note, accuracy and cost of a finished run."""
    kind = "DAG" if result.graph == result.dag else "CPDAG"
    lines = ["", f"Learnt graph ({kind}):", *(f"  {line}" for line in graph_lines(result.graph))]
    if "regret" in result.details:
        lines += ["", regret_line(result.details)]
    if result.dag_note:
        lines += ["", result.dag_note]
    if "tests" in result.details:
        ways = ", ".join(f"{count} {way}" for way, count in result.details["tests"].items())
        lines += ["", f"Tests over all sites: {ways}"]
    if "bootstrap" in result.details:
        lines += ["", *confidence_lines(result)]
    if result.details.get("ambiguous_triples"):
        lines += ["", "Open whether a collider, so not directed by it:"]
        triples = (" - ".join(triple) for triple in result.details["ambiguous_triples"])
        lines += [f"  {line}" for line in shortened(list(triples), "triples")]
    if "kernel_rows" in result.details:
        from cipherdag.algorithms.fedpc.report import kernel_remark

        lines += ["", kernel_remark(result.details)]
    if truth is not None:
        lines += [
            "",
            "Against the truth: " + metrics_line(result.metrics(truth)) + "  (as a DAG)",
            "                   " + metrics_line(result.metrics_cpdag(truth)) + "  (as a CPDAG)",
        ]
    return [*lines, *_cost_lines(result)]


def regret_line(details: Mapping[str, Any]) -> str:
    """RFcd's objective at the end and on the way, and how finely it is known."""
    curve = details["regret_curve"]
    return (
        f"Worst-case regret {details['regret']:.3f} (empty graph {curve[0]:.3f}), to the nearest "
        f"{details['regret_grid']:g}, after {details['candidates']} candidate graphs"
    )


def feature_lines(result: FeatureResult, *, most: int = 12) -> list[str]:
    """Features of every label, notes and cost of a finished run."""
    lines = ["", "Causes and effects of each label, the strongest first:"]
    for label, chosen in result.features.items():
        names = [own.feature + (" (retrieved)" if own.retrieved else "") for own in chosen[:most]]
        more = f" and {len(chosen) - most} more" if len(chosen) > most else ""
        lines.append(f"  {label}: {', '.join(names) or '(no feature)'}{more}")
        if result.related_labels[label]:
            lines.append(f"    next to the label(s) {', '.join(result.related_labels[label])}")
    lines.append(f"{len(result.union)} features for {len(result.features)} labels")
    if result.untested:
        lines.append(f"No site could test: {', '.join(result.untested)}")
    return [*lines, *_cost_lines(result)]


def _cost_lines(result: Result | FeatureResult) -> list[str]:
    most = max(result.bytes_sent_per_site.values())
    return [
        *(dropout_line(dropout) for dropout in result.dropouts),
        "",
        f"{len(result.rounds)} rounds, {result.seconds:.1f} s, {size(most)} per site",
    ]


def metrics_line(metrics: GraphMetrics) -> str:
    """SHD and its parts, precision, recall and F1 on one line."""
    return (
        f"SHD {metrics.shd} (reversed {metrics.reverse}, extra {metrics.extra}, "
        f"missing {metrics.miss}), precision {metrics.precision:.2f}, "
        f"recall {metrics.recall:.2f}, F1 {metrics.f1:.2f}"
    )


def failure_lines(error: CipherdagError) -> list[str]:
    """What, cause, effect, do: always in this order."""
    where = f" at site '{error.site}'" if error.site else ""
    return [
        f"{type(error).__name__}{where}.",
        f"  cause   {_cause(error)}",
        f"  effect  {error.effect}",
        f"  do      {error.remedy}    (exit {error.exit_code}, docs: errors#{error.anchor()})",
    ]


def _cause(error: CipherdagError) -> str:
    text = str(error)
    prefix = f"site '{error.site}': "
    return text.replace(prefix, "", 1) if error.site else text
