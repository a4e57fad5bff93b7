"""What a graph leaves open that people know of time: which columns come before all others."""

import re
import shlex
from collections.abc import Sequence

from cipherdag.findings.doubts import MOST_NAMED
from cipherdag.findings.finding import Note, Report
from cipherdag.graphs.edges import Edge
from cipherdag.pages.numerals import first_of

DIRECT_MORE = (
    "Say what you know: an order in time (--tiers), or edges that cannot be or must be (--forbid, "
    "--require). It directs edges that the data leave open."
)
_FIRST = re.compile(
    r"(?<![a-z])(age(?![ _]?(at|of|when)(?![a-z]))|alter|birth|edad|gender|geburt|geschlecht"
    r"|sex[eo]?)(?![a-z])"
)
"""Words in names of columns that no other column causes."""


def order_report(nodes: Sequence[str], edges: Sequence[Edge]) -> Report:
    """Steps that direct edges by what people know, for algorithms that take knowledge.

    A note names the edges that do not say that age or sex comes first.
    """
    is_open = any("o" in edge.mark or edge.mark == "---" for edge in edges)
    report = Report(steps=(DIRECT_MORE,) * is_open)
    first = [name for name in nodes if _FIRST.search(name.lower())]
    odd = [str(edge) for edge in edges if _leaves_out(edge, first)]
    if not odd:
        return report
    named = " or ".join([", ".join(first[:-1]), first[-1]] if first[1:] else first)
    denied = f"No other column causes {named}, and these edges do not say so:"
    again = f"To say so, run again with --tiers {shlex.quote(','.join(first))}."
    shown = first_of(odd, MOST_NAMED)
    return report + Report(
        notes=(Note(denied, (shown, again)),), steps=(f"{denied} {shown}. {again}",)
    )


def _leaves_out(edge: Edge, first: Sequence[str]) -> bool:
    """Whether an edge of a first column and another does not begin at the first one."""
    if (edge.source in first) == (edge.target in first):
        return False
    return edge.mark in ("---", "o-o") or (edge.target in first and edge.mark != "<->")
