"""The report of a run: the finding, what left each site, what it cost, and its limits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from cipherdag.algorithms.registry import title_of
from cipherdag.errors import LedgerError
from cipherdag.findings.finding import Finding, Report
from cipherdag.findings.graph_finding import SAMPLE
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.files import render
from cipherdag.privacy.protections import protection_kind
from cipherdag.protocol.progress import RoundReport
from cipherdag.questions.disclosure import Whose
from cipherdag.results.account import RunAccount
from cipherdag.results.sentences import (
    EACH,
    CountedReleases,
    dropout_line,
    opens_bits,
    release_blocks,
)
from cipherdag.sites.record.ledger import Release, read_releases, verify_ledger

AGAIN = "Run again with --bootstrap 100 to see how often each edge comes back."
FEWEST_SITES = 3
THIRD_SITE = ", and so learn the third site's numbers"


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
    """A site of the report."""

    name: str
    sent: int
    left_in: int  # round in which it left the run; 0 if it stayed
    records: int  # of its ledger, as it reported on closing
    head: str
    checked: str  # what the check of its ledger found; empty where it stays at the site
    broken: bool
    leaving: Sequence[Release | CountedReleases]  # of its ledger, or as the coordinator counted


def run_page(
    run: RunAccount,
    finding: Finding,
    report: Report,
    *,
    truth: CausalGraph | None,
    written: datetime | None,
) -> str:
    """The report as one HTML page; it needs no other file and asks no other machine for anything.

    With a true DAG it says how accurate a graph is; the time is in UTC, and not shown if None.
    """
    sites = [_site(run, site) for site in run.sites]
    # of the first record of any ledger; none where ledgers stay at the sites
    times = [read_releases(lines[:1])[0].time for lines in run.ledgers.values() if lines]
    unsure = run.parameters.get("bootstrap") == 0 and SAMPLE not in finding.details
    bit_rounds = sum(map(opens_bits, run.rounds))
    return render(
        finding.template,
        title=f"{title_of(run.algorithm)} over {len(sites)} site{'s' * (len(sites) != 1)}"
        + (f": {finding.of_patients}" if finding.of_patients else ""),
        run=run,
        finding=finding,
        began=min(times, default=""),
        written=written.isoformat() if written else "",
        sites=sites,
        each=EACH,
        released=release_blocks({site.name: site.leaving for site in sites}, run.declared),
        stages=_stages(run.rounds),
        round_bytes=report_bytes,
        protection=protection_kind(run.protection),
        disclosure=_disclosure(run),
        bit_rounds=bit_rounds,
        remarks=report.remarks,
        limits=list(limit_sentences(run, finding, report.limits, has_truth=truth is not None)),
        steps=(*report.steps, *[AGAIN] * unsure),
        panels=report.panels,
        warnings=report.warnings,
        **finding.sections(truth),
    )


def _disclosure(run: RunAccount) -> str:
    """Which rounds opened bits and which sums, and how answers were protected, in sentences."""
    of_sums = protection_kind(run.protection).disclosure
    bits = [report.number for report in run.rounds if opens_bits(report)]
    sums = [report.number for report in run.rounds if not opens_bits(report)]
    if not bits:
        return of_sums
    rest = f" {_in_rounds(sums)} sums over all sites were disclosed. {of_sums}" if sums else ""
    return (
        f"{_in_rounds(bits)} bits were disclosed, and no sum. Answers left in parts that look "
        "random, each encrypted for another site; the sites computed the bits from these parts. "
        "What bits say is listed below. A bit may rest on one site's rows, where only that site "
        f"can do the test.{rest}"
    )


def _in_rounds(numbers: Sequence[int]) -> str:
    """The numbers of some rounds if these follow one another, or else how many there are."""
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"In round {first}"
    consecutive = last - first == len(numbers) - 1
    return f"In rounds {first} to {last}" if consecutive else f"In {len(numbers)} of all rounds"


def report_bytes(report: RoundReport) -> int:
    """Bytes that left the site that sent most in a round."""
    return max(report.bytes_sent_per_site.values(), default=0)


def _site(run: RunAccount, name: str) -> SiteRow:
    lines, head = run.ledgers.get(name), run.heads.get(name)
    checked, broken = "", False
    leaving: Sequence[Release | CountedReleases]
    if lines is None:
        leaving = [
            CountedReleases(r.kind, run.protection, r.n_sites, r.values, sent, r.number)
            for r in run.rounds
            if (sent := r.bytes_sent_per_site.get(name))
        ]
    else:
        leaving = read_releases(lines)
        try:
            actual = verify_ledger(lines, identity=head.identity if head else None)
            broken = head is not None and actual != head
            checked = "does not end as the site reported" if broken else "unbroken and signed"
        except LedgerError as error:
            checked, broken = error.message, True
    return SiteRow(
        name=name,
        sent=run.bytes_sent_per_site.get(name, 0),
        left_in=next((dropout.round for dropout in run.dropouts if dropout.site == name), 0),
        records=head.records if head else 0,
        head=head.hash if head else "",
        checked=checked,
        broken=broken,
        leaving=leaving,
    )


def _stages(rounds: Sequence[RoundReport]) -> list[Stage]:
    stages = []
    for (label, n_sites, n_cohort), group in groupby(
        rounds, key=lambda report: (report.label, report.n_sites, report.n_cohort)
    ):
        same = list(group)
        stages.append(
            Stage(
                first=same[0].number,
                last=same[-1].number,
                label=label,
                values=sum(report.values for report in same),
                bytes=sum(report_bytes(report) for report in same),
                seconds=sum(report.seconds for report in same),
                n_sites=n_sites,
                n_cohort=n_cohort,
            )
        )
    return stages


def limit_sentences(
    run: RunAccount, finding: Finding, limits: Iterable[str], *, has_truth: bool
) -> Iterator[str]:
    """The limits of a result, among them those of the finding and of the algorithm."""
    if not (kind := protection_kind(run.protection)).protects:
        yield kind.disclosure
    if run.keys:
        yield run.keys
    if finding.causal:
        yield from _of_causes(run)
    yield from limits
    if finding.causal and not has_truth:
        yield "No truth was given, so nothing here says how accurate the result is."
    for dropout in run.dropouts:
        yield dropout_line(dropout)
    if len(run.sites) < FEWEST_SITES:
        yield "With fewer than three sites, a site can take its part off a sum."
    if of_one := [each.quantity for each in run.opened if each.whose == Whose.ONE]:
        yield f"These numbers are a single site's: {'; '.join(of_one)}."
    if finding.opens_bits:
        yield (
            "A bit is not protected: whether each test says dependent over all sites together is "
            "open. Two of the parties that compute the bits could recover the sums together"
            f"{THIRD_SITE if len(run.sites) == FEWEST_SITES else ''}."
        )
        return
    yield (
        "A sum is not protected: what all sites have in common is visible in it, and a run "
        "repeated without one site would show that site's part."
    )


def _of_causes(run: RunAccount) -> Iterator[str]:
    yield (
        "An edge stands for a cause only if no unmeasured variable causes both of its ends, and if "
        "all sites have the same causal structure."
    )
    alpha, size = run.parameters.get("alpha"), run.parameters.get("max_cond_size")
    if alpha is not None:
        yield (
            f"Edges are decided by tests at level {alpha:g} on finite data: some will be wrong, "
            "and a missing edge may be a weak effect or too few rows."
        )
    if size is not None:
        yield (
            f"No test conditioned on more than {size} variable{'s' * (size != 1)}, so two "
            "variables that only a larger set separates keep their edge."
        )
