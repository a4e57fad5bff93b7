"""The record of processing at a site (GDPR, Article 30): every run that asked, from its folder.

Nothing is stored for it. Who asked and who decided comes from ``runs``, what left from the ledger,
which is verified first, and sentences from what plans declare.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from itertools import chain
from typing import Any, Self

from cipherdag.audit.auditing import site_ledger
from cipherdag.errors import DataError
from cipherdag.pages.files import csv_text, printable
from cipherdag.pages.language import ENGLISH, Language
from cipherdag.protocol.plan import Plan
from cipherdag.questions.disclosure import joined, sentences
from cipherdag.results.sentences import disclosed_by
from cipherdag.sites.policy.approvals import AskedRun, Person, PersonalDecision
from cipherdag.sites.policy.parameter_rules import declared
from cipherdag.sites.policy.plan_readers import protection_lines, seen_sentences
from cipherdag.sites.record.ledger import (
    CLOSED_RUN,
    LABEL_POSITIONS,
    REFUSAL,
    RELATIONS,
    RELEASE_KINDS,
    SAME_ROWS,
    Release,
    answers,
    read_releases,
)
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.record.run_record import PLAN_FILE
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.table.schema import Schema


@dataclass(frozen=True, slots=True)
class RegisteredDecision:
    """What one person decided, as that person said; why, where it was denied."""

    decision: str
    name: str
    role: str
    when: str
    why: str
    language: str


@dataclass(frozen=True, slots=True)
class RegisteredRun:
    """One run in the record of processing; what the folder does not hold is empty.

    Attributes:
        run: Its session, in hexadecimal.
        asked: When its plan came first; like all times in UTC.
        controller: The organisation that the site's settings name.
        columns: Those of the study that this site measured, unless the schema changed since.
        recipients: The other sites of the run; the coordinator is one, too.
        decision: ``waits``, ``approved``, ``denied``, ``expired``, ``undecided`` where the
            folder has no decision, or ``refused`` where the site's program refused the plan.
        signed: Whether it was decided, and this site's key signed what each person decided.
        refused_because: The reason that the ledger has for a plan that the program refused.
        began: When the first answer left; ``ended``: when the site closed the run.
        values: Number of values that left; ``refusals``: of different ones within an hour each.
        disclosed: Sentences on what its answers disclosed at most.
        could_learn: Sentences on what sites and coordinator could learn, also if some collude.
        measures: How answers leave.
    """

    run: str
    asked: str
    controller: str
    study: str
    requester: str
    purpose: str
    algorithm: str
    protection: str
    columns: tuple[str, ...]
    recipients: tuple[str, ...]
    decision: str
    decisions: tuple[RegisteredDecision, ...]
    signed: bool
    refused_because: str
    began: str
    ended: str
    rounds: int
    values: int
    refusals: int
    disclosed: tuple[str, ...]
    could_learn: str
    measures: str


def register(site: SiteFolder, say: Language = ENGLISH) -> list[RegisteredRun]:
    """Every run that asked at a site or left a record there, in the order in which they came.

    Raises:
        LedgerError: The ledger is broken, or signed by another key.
        MalformedMessageError: A plan in the folder is none.
        SiteNotReadyError: The folder is no site's, or a file of it cannot be read.
    """
    asked = {run.session: run for run in site.approvals().runs()}
    plans = {session: run.plan for session, run in asked.items()}
    for path in sorted(site.runs.glob(f"*/{PLAN_FILE}")):
        plans.setdefault(path.parent.name, Plan.read(path))
    records: dict[str, list[Release]] = {session: [] for session in plans}
    for release in read_releases(site_ledger(site)[0]):
        if release.session:
            records.setdefault(release.session, []).append(release)
    read = _Reading.of(site)
    runs = [
        _registered(read, session, plans.get(session), asked.get(session), left, say)
        for session, left in records.items()
    ]
    return sorted(runs, key=lambda run: run.asked)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a record of all runs reads once: settings and schema."""

    site: SiteFolder
    settings: SiteSettings
    names: tuple[str, ...] = ()
    sums: OpenedSums | None = None

    @classmethod
    def of(cls, site: SiteFolder) -> Self:
        """The reading of a site's folder; no columns where the schema cannot be read."""
        settings = site.settings()
        with suppress(DataError):
            schema = Schema.load(site.schema_path(settings))
            sums = OpenedSums(schema.canonical(), site.sums_path)
            return cls(site, settings, schema.names, sums)
        return cls(site, settings)

    def columns(self, session: str, plan: Plan) -> tuple[str, ...]:
        """The columns that a run reads here; none where the schema changed since it read them."""
        if self.sums is None or not self.sums.reads(session):
            return ()
        ours = (each.lacking for each in plan.cohort if each.name == self.settings.name)
        lacking = {*chain(*ours)}
        return tuple(name for v, name in enumerate(self.names) if v not in lacking)


def _registered(
    read: _Reading,
    session: str,
    plan: Plan | None,
    asked: AskedRun | None,
    records: Sequence[Release],
    say: Language,
) -> RegisteredRun:
    answered, opens = [r for r in records if answers(r.kind)], read.site.declared(session)
    disclosed = sentences(joined(*(disclosed_by(r.kind, opens) for r in answered)), say)
    decisions = asked.decisions if asked is not None else ()
    reasons = [r.question for r in records if r.kind == REFUSAL and r.question]
    return RegisteredRun(
        run=session,
        asked=asked.asked if asked is not None else records[0].time if records else "",
        controller=read.settings.organisation,
        study=read.settings.study,
        decision=_state(read.site, plan, asked),
        decisions=tuple(
            RegisteredDecision(each.decision, *each.person, each.when, each.note, each.language)
            for each in decisions
        ),
        signed=asked is not None and asked.signed_by(read.site.identity().public),
        refused_because=reasons[-1] if reasons else "",
        began=answered[0].time if answered else "",
        ended=next((each.time for each in records if each.kind == CLOSED_RUN), ""),
        rounds=max((each.round for each in answered), default=0),
        values=sum(each.values for each in answered),
        refusals=sum(each.kind == REFUSAL for each in records),
        disclosed=(*disclosed, *_set_up_sentences(records, say)),
        **_of_plan(read, session, plan, records, say),
    )


def _set_up_sentences(records: Sequence[Release], say: Language) -> Iterator[str]:
    """What a set-up disclosed, which answers no question."""
    kinds = {kind for each in records for kind in each.kind.split("+")}
    if "offer" in kinds:
        yield say(SAME_ROWS)
    for kind in (LABEL_POSITIONS, RELATIONS):
        if kind in kinds:
            said = say(RELEASE_KINDS[kind].phrase)
            yield f"{said[0].upper()}{said[1:]}."


def _of_plan(
    read: _Reading, session: str, plan: Plan | None, records: Sequence[Release], say: Language
) -> dict[str, Any]:
    """What the plan says, or the ledger where there is none."""
    if plan is None:
        named = [(each.algorithm, each.protection) for each in records if each.algorithm]
        algorithm, protection = named[0] if named else ("", "")
        texts = {"requester": "", "purpose": "", "could_learn": "", "measures": ""}
        lists: dict[str, Any] = {"columns": (), "recipients": ()}
        return {**texts, **lists, "algorithm": algorithm, "protection": protection}
    learnt, opens = seen_sentences(plan, say), declared(plan.algorithm, plan.parameters)
    return {
        "requester": plan.requester,
        "purpose": plan.purpose,
        "algorithm": plan.algorithm,
        "protection": plan.protection,
        "columns": read.columns(session, plan),
        "recipients": tuple(name for name in plan.names if name != read.settings.name),
        "could_learn": f"{learnt[0].upper()}{learnt[1:]}",
        "measures": protection_lines(plan, opens, say)[0],
    }


def _state(site: SiteFolder, plan: Plan | None, asked: AskedRun | None) -> str:
    if asked is None:
        return "refused" if plan is None else "undecided"
    expired = asked.decision == "waits" and site.approvals().expired(asked)
    return "expired" if expired else asked.decision


def register_csv(runs: Sequence[RegisteredRun]) -> str:
    """The record as CSV, a row for each run; what is more than one is joined by semicolons."""
    return csv_text([[each.name for each in fields(RegisteredRun)], *map(_cells, runs)])


def _cells(run: RegisteredRun) -> Iterator[object]:
    for each in fields(run):
        value = getattr(run, each.name)
        if each.name == "decisions":
            value = tuple(", ".join(filter(None, astuple(one))) for one in value)
        mark = " " if each.name == "disclosed" else "; "
        yield mark.join(value) if isinstance(value, tuple) else value


def register_lines(runs: Sequence[RegisteredRun], say: Language = ENGLISH) -> Iterator[str]:
    """The record for a person, a paragraph for each run."""
    yield say("Record of processing activities (GDPR, Article 30), from the files of this site.")
    yield say(
        "Add contacts, data subjects, legal basis, transfers and retention: no file here has them."
    )
    for run in runs:
        yield ""
        yield say("Run {run}, asked on {day}.", run=run.run[:8], day=run.asked[:10])
        yield from (f"  {printable(line)}" for line in _run_lines(run, say))


def _run_lines(run: RegisteredRun, say: Language) -> Iterator[str]:
    yield say("Controller: {who}. Study: {study}.", who=run.controller, study=run.study)
    if run.measures:
        yield say("Requester: {who}.", who=run.requester or say("The coordinator"))
        yield say("Purpose: {purpose}", purpose=run.purpose or say("none is given"))
    if run.algorithm:
        yield say("Algorithm: {algorithm}.", algorithm=run.algorithm)
    if run.columns:
        columns = ", ".join(run.columns)
        yield say("Categories of personal data: {columns}.", columns=columns)
    elif run.measures:
        yield say("Categories of personal data: not known, as the run's schema is not here.")
    if run.recipients:
        sites = ", ".join(run.recipients)
        yield say("Recipients: the coordinator, and the sites {sites}.", sites=sites)
    yield from _decision_lines(run, say)
    yield from _left_lines(run, say)
    if run.measures:
        yield say("What could be learnt: {sentence}", sentence=run.could_learn)
        yield say("Technical measures: {sentence}", sentence=run.measures)


def _left_lines(run: RegisteredRun, say: Language) -> Iterator[str]:
    if run.began:
        about = {"began": run.began[:10], "rounds": run.rounds, "values": run.values}
        yield say("Carried out on {began}: {rounds:,} rounds, {values:,} values.", **about)
        if not run.ended:
            yield say("It was not finished here.")
    yield from (say("Disclosed: {sentence}", sentence=each) for each in run.disclosed)
    if not run.disclosed:
        yield say("Nothing was disclosed.")
    if run.refusals:
        yield say.counted("{n} refusal.", "{n} refusals.", run.refusals)


def _decision_lines(run: RegisteredRun, say: Language) -> Iterator[str]:
    for each in run.decisions:
        person = Person(each.name, each.role)
        decision = PersonalDecision(each.decision, person, each.when)  # type: ignore[arg-type]
        yield decision.in_words(say)
        if each.why and each.decision == "denied":
            yield f"{say('Denied because:')} {each.why}"
    states = {
        "waits": say("It waits for a decision."),
        "expired": say("It expired without a decision."),
        "undecided": say("No person's decision is here: by its policy the site asked nobody."),
        "refused": say("This site's program refused it, and asked nobody."),
    }
    if run.decision in states:
        yield states[run.decision]
    elif not run.signed:
        yield say("LOOK: this site's key did not sign these decisions.")
    if run.refused_because:
        yield say("Refused because: {reason}", reason=run.refused_because)
