"""The report of a run: graph, evidence, accuracy, cost, what left each site, and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.registry import title_of
from cipherdag.errors import LedgerError
from cipherdag.findings.panel import Panel
from cipherdag.pages.rendering import render
from cipherdag.privacy.protections import protection_kind
from cipherdag.protocol.progress import RoundReport
from cipherdag.results.limits import limit_sentences
from cipherdag.results.sentences import Counted, site_sentences
from cipherdag.sites.record.ledger import Release, read_releases, verify_ledger

if TYPE_CHECKING:
    from cipherdag.results.run import Run


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


def run_page(
    run: Run,
    sections: Mapping[str, Any],
    *,
    has_truth: bool,
    written: datetime | None,
    panels: Sequence[Panel],
) -> str:
    """The report as one HTML page; it needs no other file and asks no other machine for anything.

    Args:
        run: The result of a run.
        sections: What its template shows of what was found.
        has_truth: Whether the page says how accurate that is.
        written: When the page is written, in UTC; not shown if None.
        panels: What to show beside the algorithm's own panels.
    """
    own = run.report
    sites = [_site(run, site) for site in run.sites]
    limits = [*sections["own_limits"], *own.limits]
    return render(
        run.template,
        title=f"{title_of(run.algorithm)} over {len(sites)} site{'s' * (len(sites) != 1)}",
        result=run,
        began=_began(run),
        written=written.isoformat() if written else "",
        sites=sites,
        released=_released(sites),
        stages=_stages(run.rounds),
        round_bytes=report_bytes,
        protection=protection_kind(run.protection),
        limits=list(limit_sentences(run, limits, has_truth=has_truth)),
        panels=(*own.panels, *panels),
        warnings=own.warnings,
        **sections,
    )


def report_bytes(report: RoundReport) -> int:
    """Bytes that left the site that sent most in a round."""
    return max(report.bytes_sent_per_site.values(), default=0)


def _site(run: Run, name: str) -> SiteRow:
    lines, head = run.ledgers.get(name), run.heads.get(name)
    checked, broken = "", False
    leaving: Sequence[Release | Counted]
    if lines is None:
        leaving = [
            Counted(r.kind, run.protection, r.n_sites, r.values, sent, r.number)
            for r in run.rounds
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
        sent=run.bytes_sent_per_site.get(name, 0),
        left_in=next((own.round for own in run.dropouts if own.site == name), 0),
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


def _began(run: Run) -> str:
    """Time of the first record of any ledger; empty where ledgers stay at the sites."""
    times = [read_releases(lines[:1])[0].time for lines in run.ledgers.values() if lines]
    return min(times, default="")
