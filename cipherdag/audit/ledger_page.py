"""The page for a data-protection officer: what left one site, from that site's ledger alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby

from cipherdag.algorithms.registry import title_of
from cipherdag.pages.files import render
from cipherdag.privacy.keys.identity import fingerprint
from cipherdag.privacy.protection_kind import ProtectionKind
from cipherdag.privacy.protections import DEFAULT, PROTECTIONS, protection_kind
from cipherdag.protocol.progress import LedgerHead
from cipherdag.questions.disclosure import Disclosure, joined
from cipherdag.results.run_page import FEWEST_SITES
from cipherdag.results.sentences import NOT_KNOWN, Declared, disclosed_by, site_sentences
from cipherdag.sites.policy.plan_readers import of_colluding_sites
from cipherdag.sites.record.ledger import Release, answers


@dataclass(frozen=True, slots=True)
class LedgerRun:
    """One run as the ledger shows it: records of one session, one after the other."""

    session: str
    began: str
    ended: str
    algorithm: str
    kind: ProtectionKind  # how answers were protected
    sites: tuple[int, ...]  # sizes of the cohorts that its sums covered, ascending
    rounds: int
    values: int
    bytes: int  # bytes of all that it recorded
    opened: tuple[Disclosure, ...]  # what its answers opened at most
    sentences: tuple[str, ...]


def ledger_page(
    records: Sequence[Release],
    head: LedgerHead,
    declared: Declared = NOT_KNOWN,
    *,
    pinned: bool,
    written: datetime | None = None,
) -> str:
    """The register of a site's releases as one HTML page, which needs no other file or machine.

    The records are of a ledger that verifies, and ``head`` is where it ends. ``declared`` says what
    each session declared, as far as that is known. Unless signatures were checked against a key
    known beforehand (``pinned``), the ledger only agrees with the key that it names itself.
    """
    runs = ledger_runs(records, declared)
    sealed = [run.sites for run in runs if any(each.sealed for each in run.opened)]
    return render(
        "ledger.html.j2",
        title=f"What left {head.site or 'this site'}",
        head=head,
        pinned=pinned,
        records=records,
        runs=runs,
        values=sum(run.values for run in runs),
        bytes=sum(run.bytes for run in runs),
        fewest=min((size for run in runs for size in run.sites), default=0),
        fingerprint=fingerprint(bytes.fromhex(head.identity)).upper() if head.identity else "",
        protections=[
            kind.disclosure
            for kind in PROTECTIONS.values()
            if any(run.kind == kind for run in runs)
        ]
        + [
            f"Of bits over {size} sites: {of_colluding_sites(size)}"
            for size in sorted({*chain(*sealed)})
        ],
        opened={each.heading: None for run in runs for each in run.opened},
        attention=list(attention(runs)),
        written=written.isoformat() if written else "",
    )


def ledger_runs(records: Sequence[Release], declared: Declared = NOT_KNOWN) -> list[LedgerRun]:
    """The runs of a ledger in order; a session that is interrupted by another counts twice."""
    runs = []
    for session, group in groupby(records, key=lambda record: record.session):
        run_records = list(group)
        if not session:
            continue
        answered = [record for record in run_records if answers(record.kind)]
        said = declared(session)
        runs.append(
            LedgerRun(
                session=session,
                began=run_records[0].time,
                ended=run_records[-1].time,
                algorithm=title_of(_first(run_records, "algorithm")),
                kind=protection_kind(_first(run_records, "protection") or DEFAULT),
                sites=tuple(sorted({record.sites for record in answered})),
                rounds=max(record.round for record in run_records),
                values=sum(record.values for record in answered),
                bytes=sum(record.bytes for record in run_records),
                opened=joined(*(disclosed_by(record.kind, said) for record in answered)),
                sentences=tuple(site_sentences(run_records, said)),
            )
        )
    return runs


def _first(records: Sequence[Release], field: str) -> str:
    """The first value of a field among records; a refusal to a stranger has none."""
    return next((said for record in records if (said := getattr(record, field))), "")


def attention(runs: Sequence[LedgerRun]) -> Iterator[str]:
    """The sentences on releases that a reader should ask about."""
    clear = [run for run in runs if not run.kind.protects]
    if clear:
        yield (
            f"In {len(clear)} of {len(runs)} runs answers left this site in the clear. The site's "
            "policy allowed it; that is meant for made-up data only."
        )
    few = [run for run in runs if run.sites and run.sites[0] < FEWEST_SITES]
    if few:
        yield (
            f"In {len(few)} of {len(runs)} runs a sum covered fewer than three sites, so another "
            "site could take its part off and see this site's."
        )
    shrunk = [run for run in runs if len(run.sites) > 1]
    if shrunk:
        yield (
            f"In {len(shrunk)} of {len(runs)} runs a site left on the way: later sums cover fewer "
            "sites than earlier ones."
        )
    sizes = {run.sites[-1] for run in runs if run.sites}
    if len(sizes) > 1:
        listed = ", ".join(str(size) for size in sorted(sizes))
        yield (
            f"Runs had different numbers of sites ({listed}). Two runs on the same data that "
            "differ by one site differ by that site's answers."
        )
