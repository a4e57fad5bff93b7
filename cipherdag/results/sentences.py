"""Sentences about what left a site, and about sites that left a run."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from cipherdag.algorithms.registry import title_of
from cipherdag.pages.files import printable
from cipherdag.pages.numerals import counted, first_of, size
from cipherdag.privacy.protections import protection_kind
from cipherdag.protocol.progress import DropOut, RoundReport
from cipherdag.questions.disclosure import Disclosure, Quantity, Whose, joined, sentences, sums
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.question import (
    KINDS_ALONE,
    PARTS_COUNTED,
    PATIENTS_COUNTED,
    Resampled,
    question_kinds,
    tag_of,
)
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.record.ledger import (
    CLOSED_RUN,
    REFUSAL,
    RELEASE_KINDS,
    WAITS,
    Release,
    answers,
)

PHRASES = {kind.name: kind.phrase for kind in RELEASE_KINDS.values()}
DISCLOSED = {
    **{tag: kind.discloses for tag, kind in question_kinds().items()},
    KINDS_ALONE: Columns(n_variables=1, order=True, few=True, marks=False).disclosures,
    PATIENTS_COUNTED: sums(Quantity.PATIENTS),
    PARTS_COUNTED: sums(Quantity.SPREAD, Quantity.SITES),
}
"""By kind of question, as ledgers call it, what it discloses at most."""
CLOSED = {tag for tag, said in DISCLOSED.items() if any(each.sealed for each in said)}
"""Kinds of shares whose sums are never opened."""
EACH = "each of {} sites; sizes from the smallest to the largest"
COUNTS_FIRST = "; of some or all of this only whether it has rows"
"""Where sites that contribute are counted before anything is opened."""
SOME_ADD_NOTHING = "; a site without enough rows for a part adds nothing to it"
"""Where a part is opened once enough sites have it, be they all or not."""
Opened = Collection[Disclosure]
"""What is known of what a run declared; nothing where empty."""
Declared = Callable[[str], Opened]  # the same of a session
NOT_KNOWN: Declared = lambda _: ()  # noqa: E731
STEPS = {
    "share": "before it sent its share",
    "unmask": "before it released its mask",
    "open": "while it opened the sum",
    "finish": "before it said goodbye",
}
REASONS = {
    "timeout": "no reply in time",
    "unreachable": "it cannot be reached",
    "failed": "its process gave no answer",
    "no reply": "no reply",
}


@dataclass(frozen=True, slots=True)
class CountedReleases:
    """The releases of a site in a round as the coordinator counted them; fields as in `Release`."""

    kind: str
    protection: str
    sites: int
    values: int
    bytes: int
    round: int


AnyRelease = Release | CountedReleases
Releases = Mapping[str, Sequence[AnyRelease]]  # by site


def disclosed_by(kinds: str, declared: Opened = ()) -> tuple[Disclosure, ...]:
    """What releases of these kinds disclose at most, of what their run declared."""
    named = {*kinds.split("+")}
    opened = named & {*CLOSED, tag_of(Resampled)} if named & CLOSED else named
    most = joined(*(DISCLOSED.get(kind, ()) for kind in opened))
    counted = joined(*(DISCLOSED[each] for each in named & {PATIENTS_COUNTED, PARTS_COUNTED}))
    said = {*declared, *counted} if declared else {*most}
    return tuple(each for each in most if each in said) or most


def phrase(kinds: str, declared: Opened = ()) -> str:
    """The phrase for a release of these kinds; an unknown kind is its own phrase."""
    if named := [PHRASES[kind] for kind in kinds.split("+") if kind in PHRASES]:
        return "; ".join(named)
    said = " ".join(sentences(disclosed_by(kinds, declared))).rstrip(".")
    return f"at most {said[0].lower()}{said[1:]}" if said else kinds


def dropout_line(dropout: DropOut) -> str:
    """The sentence on what a dropout means for the result."""
    included = "its answer is in that round's sum" if dropout.in_sum else "it is in no later sum"
    return (
        f"Site '{dropout.site}' left in round {dropout.round} ({dropout.step}: {dropout.reason}); "
        f"{included}; the run went on without it."
    )


def dropout_lines(dropout: DropOut) -> list[str]:
    """The event, cause, effect and remedy of a dropout that the run survived."""
    cause = REASONS.get(dropout.reason, dropout.reason)
    number = dropout.round
    if dropout.step == "finish":
        effect = "the run had ended; the head of its ledger is missing from the result"
    elif dropout.in_sum:
        effect = f"its answer is in the sum of round {number}, and in none from the next one on"
    else:
        effect = f"the others were asked round {number}'s question again; it is in no later sum"
    return [
        f"Site '{dropout.site}' left the run in round {number}, {STEPS[dropout.step]}.",
        f"  cause   {cause}; {dropout.n_sites} sites remain, {dropout.fewest} are needed",
        f"  effect  {effect}",
        "  do      on that machine: cipherdag site check    (exit 5 if too few are left)",
    ]


def opens_bits(report: RoundReport) -> bool:
    """True if a round disclosed bits, and no sum."""
    return not CLOSED.isdisjoint(report.kind.split("+"))


def disclosed_in_brief(rounds: Sequence[RoundReport], protection: str) -> str:
    """In how many rounds bits were disclosed and in how many sums, in a sentence."""
    bits, protects = sum(map(opens_bits, rounds)), protection_kind(protection).protects
    sums_of = "sums over all sites" if protects else "every site's answer, which left in the clear,"
    counts = ((bits, "bits"), (len(rounds) - bits, sums_of))
    said = [f"{what} in {counted(count, 'round')}" for count, what in counts if count]
    return f"Disclosed: {', and '.join(said) or 'nothing'}; no row left a site."


@dataclass(frozen=True, slots=True)
class ReleaseBlock:
    """What some sites sent in common: in sentences, and whether it is more than what all sent."""

    sites: tuple[str, ...]
    sentences: tuple[str, ...]
    more: bool


def release_lines(releases: Releases, declared: Opened = ()) -> list[str]:
    """The releases of each site in sentences that a data-protection officer reads."""
    lines = []
    for block in release_blocks(releases, declared):
        names = first_of([f"'{printable(site)}'" for site in block.sites])
        count = len(block.sites)
        each = f" ({EACH.format(count)})" if count > 1 else ""
        lines.append(f"{'Also' if block.more else 'What'} left {names}{each}:")
        lines += [f"  {printable(each)}" for each in block.sentences]
    return lines


def release_blocks(releases: Releases, declared: Opened = ()) -> list[ReleaseBlock]:
    """What left every site, with the least and the most bytes; then what left some."""
    sent = {site: dict(_summed(records)) for site, records in releases.items()}
    first = next(iter(sent.values()), {})
    common = tuple(each for each in first if all(each in content for content in sent.values()))
    sites_by_kinds: dict[tuple[_Kind, ...], list[str]] = defaultdict(list)
    for site, content in sent.items():
        rest = tuple(each for each in content if each not in common)
        if rest or not common:
            sites_by_kinds[rest].append(site)
    blocks = [(common, list(sent), False)] if common else []
    blocks += [(kinds, sites, bool(common)) for kinds, sites in sites_by_kinds.items()]
    return [
        ReleaseBlock(
            tuple(sites),
            tuple(kind.sentence([sent[s][kind] for s in sites], declared) for kind in kinds),
            more,
        )
        for kinds, sites, more in blocks
    ]


def site_sentences(records: Iterable[AnyRelease], declared: Opened = ()) -> Iterable[str]:
    """The releases of one site in one run, one or two sentences per kind, protection and cohort."""
    for kind, sent in _summed(records):
        yield kind.sentence([sent], declared)


class _Kind(NamedTuple):
    """The releases of a kind in one run: when, how protected, and how many values."""

    rounds: str
    kind: str
    protection: str
    sites: int
    values: int

    def sentence(self, sent: Sequence[int], declared: Opened) -> str:
        """Say when they left, what they are, and who sees what of them."""
        return f"{self.rounds}: {self.said(sent, declared)}"

    def said(self, sent: Sequence[int], declared: Opened) -> str:
        """Say what they are, and who sees what of them; they took so many bytes at each site."""
        took = " to ".join(dict.fromkeys(map(size, (min(sent), max(sent)))))
        if self.values and not self.kind.startswith("schema-digest"):
            bits = CLOSED & set(self.kind.split("+"))
            unit = "bits of all sites together" if bits else "values"
            took = f"{self.values:,} {unit}, {took}"
        seen = _seen(self.kind, self.protection, self.sites)
        return f"{phrase(self.kind, declared)} ({took}).{seen}"


def _summed(records: Iterable[AnyRelease]) -> Iterator[tuple[_Kind, int]]:
    """What some releases are by kind, protection and cohort, and their bytes."""
    grouped: dict[tuple[str, str, int], list[AnyRelease]] = defaultdict(list)
    for record in records:
        grouped[record.kind, record.protection, record.sites].append(record)
    for key, group in grouped.items():
        values = sum(record.values for record in group)
        yield _Kind(_rounds(group), *key, values), sum(record.bytes for record in group)


def _rounds(group: Sequence[AnyRelease]) -> str:
    first, last = group[0].round, group[-1].round
    if group[0].kind == CLOSED_RUN:
        return "end"
    if last == 0:
        return "set-up"
    return f"round {first}" if first == last else f"rounds {first}-{last}"


def _seen(kind: str, protection: str, sites: int) -> str:
    if not answers(kind):
        seen = RELEASE_KINDS[kind.split("+", maxsplit=1)[0]].seen.format(sites=sites)
        return f" {seen}" if seen else ""
    protected, kinds = protection_kind(protection), set(kind.split("+"))
    if CLOSED & kinds:
        opened = f"Only bits over {sites} sites together are disclosed."
        return f" Split into parts that look random, each encrypted for another site. {opened}"
    fewer = SOME_ADD_NOTHING if tag_of(Suppressed) in kinds else ""
    fewer += COUNTS_FIRST if tag_of(ContributorCounts) in kinds else ""
    if not protected.protects:
        return f" Sent {protected.left}, seen by the coordinator."
    if any(each.whose == Whose.ONE for each in disclosed_by(kind)):
        of_any = f"of each comparison everybody sees whether any of {sites} sites exceeds it"
        return f" Sent {protected.left}: {of_any}."
    return f" Sent {protected.left}, seen by everybody only as a sum over {sites} sites{fewer}."


def release_history(records: Iterable[Release], declared: Declared = NOT_KNOWN) -> list[str]:
    """A site's ledger run by run and record by record, in sentences."""
    lines: list[str] = []
    session = None
    opened: Opened = ()
    for record in records:
        if record.session != session:
            session, opened = record.session, declared(record.session)
            when = f"{record.time[:16].replace('T', ' ')} UTC"
            lines.append(f"Run {session[:8]}, {when}:" if session else f"Outside a run, {when}:")
        lines.append(f"  {release_sentence(record, opened)}")
    counts = ((line, len(list(same))) for line, same in groupby(lines))
    return [line if times == 1 else f"{line} ({times} times)" for line, times in counts]


def release_sentence(record: Release, declared: Opened) -> str:
    """The sentence on one record of a ledger: a release, or an event outside a run."""
    if not record.session:
        said = PHRASES.get(record.kind, record.kind)
        return f"{said[0].upper()}{said[1:]}{': ' if record.question else ''}{record.question}."
    kind = _Kind(_rounds([record]), record.kind, record.protection, record.sites, record.values)
    when = f"{kind.rounds.capitalize()}, {title_of(record.algorithm)}"
    why = f" {record.question[0].upper()}{record.question[1:]}." if _says_why(record) else ""
    return f"{when}: {kind.said([record.bytes], declared)}{why}"


def _says_why(record: Release) -> bool:
    return record.kind == REFUSAL and bool(record.question)


def release_runs(records: Iterable[Release]) -> list[str]:
    """A site's ledger with a line for each run: what it was, how much left, and how it ended."""
    runs: dict[str, list[Release]] = {}
    for record in records:
        runs.setdefault(record.session, []).append(record)
    return [_run_line(session, run) for session, run in runs.items() if session]


def _run_line(session: str, run: Sequence[Release]) -> str:
    why = [record.question for record in run if _says_why(record)]
    ends = {CLOSED_RUN: "finished", WAITS: "waited for a decision here", REFUSAL: "refused"}
    end = "finished" if CLOSED_RUN in {record.kind for record in run} else ends.get(run[-1].kind)
    said = f"{end or 'not finished'}{f': {why[-1]}' if why and end == 'refused' else ''}"
    rounds = counted(len({record.round for record in run} - {0}), "round")
    sent = f"{counted(len(run), 'record')}, {rounds}, {size(sum(each.bytes for each in run))}"
    when = f"{run[0].time[:16].replace('T', ' ')} UTC"
    title = next((title_of(each.algorithm) for each in run if each.algorithm), "no plan")
    return f"Run {session[:8]}, {when}, {title}: {sent}; {said}."
