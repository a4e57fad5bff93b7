"""Sentences about what left a site, and about sites that left a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from cipherdag.algorithms.registry import title_of
from cipherdag.pages.numerals import size
from cipherdag.privacy.protections import protection_kind
from cipherdag.protocol.progress import DropOut
from cipherdag.questions.question import question_kinds, tag_of
from cipherdag.questions.threshold import Suppressed
from cipherdag.questions.verdicts import Verdicts
from cipherdag.sites.policy.plan_account import printable
from cipherdag.sites.record.ledger import RELEASE_KINDS, answers

if TYPE_CHECKING:
    from cipherdag.sites.record.ledger import Release


PHRASES = {tag: kind.leaves for tag, kind in question_kinds().items()} | {
    kind.name: kind.phrase for kind in RELEASE_KINDS.values()
}
CLOSED = {tag for tag, kind in question_kinds().items() if issubclass(kind, Verdicts)}
"""Kinds of shares whose sums are never opened."""
SOME_ADD_NOTHING = ", of which some may add nothing to a part"
"""Where a part is opened once enough sites have it, be they all or not."""
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


def phrase(kinds: str) -> str:
    """The phrase for a release of these kinds; an unknown kind is its own phrase."""
    return " + ".join(PHRASES.get(kind, kind) for kind in kinds.split("+"))


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


def release_lines(releases: Mapping[str, Sequence[Release]]) -> list[str]:
    """The releases of each site in sentences that a data-protection officer reads."""
    lines: list[str] = []
    for site, records in releases.items():
        lines.append(f"What left '{printable(site)}':")
        lines += [f"  {printable(sentence)}" for sentence in site_sentences(records)]
    return lines


def site_sentences(records: Iterable[Release | CountedReleases]) -> Iterable[str]:
    """The releases of one site in one run, one sentence per kind, protection and cohort."""
    grouped: dict[tuple[str, str, int], list[Release | CountedReleases]] = defaultdict(list)
    for record in records:
        grouped[record.kind, record.protection, record.sites].append(record)
    for (kind, protection, sites), group in grouped.items():
        values, sent = sum(r.values for r in group), sum(r.bytes for r in group)
        yield f"{_rounds(group)}: {_release_phrase(kind, protection, sites, values, sent)}"


def _rounds(group: list[Release | CountedReleases]) -> str:
    first, last = group[0].round, group[-1].round
    if last == 0:
        return "set-up"
    return f"round {first}" if first == last else f"rounds {first}-{last}"


def _release_phrase(kind: str, protection: str, sites: int, values: int, sent: int) -> str:
    what = phrase(kind)
    if values and not kind.startswith("schema-digest"):
        what = f"{values} values ({what})"
    return f"{what}, {size(sent)}{_seen(kind, protection, sites)}"


def _seen(kind: str, protection: str, sites: int) -> str:
    if not answers(kind):
        return RELEASE_KINDS[kind.split("+", maxsplit=1)[0]].seen.format(sites=sites)
    protected, kinds = protection_kind(protection), set(kind.split("+"))
    if CLOSED & kinds:
        only = f"nothing but bits of tests over {sites} sites is found"
        return f", in sealed parts, of which {only}"
    fewer = SOME_ADD_NOTHING if tag_of(Suppressed) in kinds else ""
    only = f" only as a sum over {sites} sites{fewer}" if protected.protects else ""
    return f", {protected.left}, seen by the coordinator{only}"


def release_history(records: Iterable[Release]) -> list[str]:
    """A site's ledger run by run and record by record, in sentences."""
    lines: list[str] = []
    session = None
    for record in records:
        if record.session != session:
            session = record.session
            when = f"{record.time[:16].replace('T', ' ')} UTC"
            lines.append(f"Run {session[:8]}, {when}:" if session else f"Outside a run, {when}:")
        lines.append(f"  {release_sentence(record)}")
    return [_counted(line, len(list(same))) for line, same in groupby(lines)]


def _counted(line: str, times: int) -> str:
    return line if times == 1 else f"{line.removesuffix('.')}, {times} times."


def release_sentence(record: Release) -> str:
    """The sentence on one record of a ledger: a release, or an event outside a run."""
    if not record.session:
        said = PHRASES.get(record.kind, record.kind)
        return f"{said[0].upper()}{said[1:]}{': ' if record.question else ''}{record.question}."
    algorithm = title_of(record.algorithm)
    when = f"Round {record.round}, {algorithm}" if record.round else f"Set-up, {algorithm}"
    phrases = _release_phrase(
        record.kind, record.protection, record.sites, record.values, record.bytes
    )
    return f"{when}: {phrases}."
