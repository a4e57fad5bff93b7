"""What ``site status`` says: who the site is, and which plans asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cipherdag.pages.language import ENGLISH

if TYPE_CHECKING:
    from cipherdag.pages.language import Language
    from cipherdag.protocol.plan import Plan
    from cipherdag.sites.record.ledger import Release
    from cipherdag.sites.study.site_folder import SiteFolder
    from cipherdag.sites.study.study import Study

REFUSED = "refused plans"
_MOST_REFUSED = 5
WAITS = "WAITS"
_DENIED = "Denied because:"
_WHO_AND_WHY = 2  # lines of an account
_REACHED_BY = {"files": "by files in the shared folder"}


def site_state(folder: SiteFolder, code: str | None = None) -> dict[str, Any]:
    """The state of a site as ``site status --json`` prints it, plans in the language ``code``."""
    from cipherdag.privacy.keys.identity import fingerprint, pairing_code
    from cipherdag.sites.policy.usage import BitBudget
    from cipherdag.sites.private_files import START_LOCK, is_locked

    settings = folder.settings()
    identity_fingerprint = fingerprint(folder.identity().public)
    active: Study | None = folder.study() if folder.study_path.exists() else None
    return {
        "site": settings.name,
        "code": pairing_code(identity_fingerprint),
        "fingerprint": identity_fingerprint.upper(),
        "started": is_locked(folder.path / START_LOCK),
        **_refused_plans(folder),
        **_study_status(active),
        **_engine_status(folder),
        "found": BitBudget(folder.policy(), folder.bits_path).sentence(),
        "runs": _asked_runs(folder, folder.language(code)),
    }


def status_lines(
    state: Mapping[str, Any], *, details: bool = False, say: Language = ENGLISH
) -> Iterator[str]:
    """The state of a site in words; a plan that does not wait is cut to who asked and why."""
    width = max(map(len, state))
    for key, value in state.items():
        for said in value if key == REFUSED else [_in_words(value)] * (key != "runs"):
            yield f"{key:<{width}}  {said}"
    for run in state["runs"]:
        waits = run["state"] == WAITS
        yield ""
        yield from run_lines(run, whole=waits, details=details and waits, say=say)


def run_lines(
    run: Mapping[str, Any], *, whole: bool, details: bool = False, say: Language = ENGLISH
) -> Iterator[str]:
    """A plan that asked, as ``--json`` has it, in words.

    Whole, it says more than who asks and why; with details, all of it and not the summary.
    """
    session_prefix = run["session"][:8]
    yield f"run {session_prefix}  {run['state']}  asked {run['asked']}"
    for index, line in enumerate(run["account" if details else "summary"]):
        if whole or index < _WHO_AND_WHY or line.startswith(say(_DENIED)):
            yield f"  {line}"
    if not details:
        command = f"cipherdag site status {session_prefix}{' --details' * whole}"
        yield "  " + (
            say("All settings, and all that is disclosed: {command}", command=command)
            if whole
            else say("In full: {command}", command=command)
        )


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def plan_in_words(folder: SiteFolder, plan: Plan, say: Language = ENGLISH) -> list[str]:
    """A plan in sentences; without a schema, without what would be asked first of its columns."""
    from cipherdag.sites.policy.plan_account import plan_lines
    from cipherdag.sites.table.schema import Schema

    path, policy = folder.schema_path(folder.settings()), folder.policy()
    if not path.exists():
        return plan_lines(plan, policy=policy, say=say)
    schema = Schema.load(path)
    return plan_lines(
        plan,
        n_variables=len(schema.names),
        names=schema.names,
        labels=schema.label_positions,
        determined=schema.determined,
        policy=policy,
        say=say,
    )


def _summary(
    folder: SiteFolder, plan: Plan, account: Sequence[str], before: Sequence[str], say: Language
) -> list[str]:
    """A plan in ten lines."""
    from cipherdag.sites.policy.plan_account import summary_lines
    from cipherdag.sites.policy.usage import BitBudget
    from cipherdag.sites.table.schema import Schema

    path = folder.schema_path(folder.settings())
    n_variables = len(Schema.load(path).names) if path.exists() else None
    policy = folder.policy()
    return summary_lines(
        plan,
        account,
        before=before,
        n_variables=n_variables,
        policy=policy,
        spent=BitBudget(policy, folder.bits_path).sentence(say),
        say=say,
    )


def _asked_runs(folder: SiteFolder, say: Language) -> list[dict[str, Any]]:
    """Every plan that asked, what was decided, and the plan in sentences."""
    from cipherdag.sites.policy.plan_account import differences
    from cipherdag.sites.record.ledger import CLOSED_RUN
    from cipherdag.sites.study.doctor import question_of_visits

    ended = {each.session for each in _releases(folder) if each.kind == CLOSED_RUN}
    approvals = folder.approvals()
    asked = approvals.runs()
    rows = []
    unanswered = question_of_visits(folder, say) if any(map(approvals.waits, asked)) else []
    for run in asked:
        account = plan_in_words(folder, run.plan, say)
        # whichever asked first: a coordinator chooses the order in which plans ask
        others = [each.plan for each in asked if each is not run and each.decision == "approved"]
        before = differences(run.plan, others, say)
        summary = _summary(folder, run.plan, account, before, say)
        account += [say("Compared with {difference}", difference=line) for line in before]
        decision = [f"{say('CONSIDER:')} {run.considered(say)}."] if run.consider else []
        decision += [each.in_words(say) for each in run.decisions]
        decision += [f"{say(_DENIED)} {each.note}" for each in run.decisions if each.note]
        state: str = run.decision
        if approvals.waits(run):
            decision += [*unanswered, approvals.deadline(run, say)]
        elif state == "waits":
            state = "expired"
        elif run.session in ended:
            state = "finished"
        rows.append(
            {
                "session": run.session,
                "asked": run.asked,
                "state": WAITS if state == "waits" else state,
                "algorithm": run.plan.algorithm,
                "protection": run.plan.protection,
                "sites": [member.name for member in run.plan.cohort],
                "summary": [*summary, *decision],
                "account": [*account, *decision],
            }
        )
    return rows


def _refused_plans(folder: SiteFolder) -> dict[str, list[str]]:
    """The last plans that the site refused by itself, and why; those that a person denied wait."""
    from cipherdag.protocol.messages import DENIED
    from cipherdag.sites.record.ledger import REFUSAL

    why = {
        each.session: f"run {each.session[:8]} of {each.time[:16]}, {each.algorithm}: "
        f"{each.question}"
        for each in _releases(folder)
        if each.kind == REFUSAL and each.question not in ("", DENIED)
    }
    return {REFUSED: [*why.values()][-_MOST_REFUSED:]} if why else {}


def _releases(folder: SiteFolder) -> list[Release]:
    """The records of the site's ledger, which `site check` verifies."""
    from cipherdag.sites.record.ledger import ledger_lines, read_releases

    path = folder.ledger_path
    return read_releases(ledger_lines(path.read_text("utf-8"))) if path.exists() else []


def _engine_status(folder: SiteFolder) -> dict[str, Any]:
    from cipherdag.deployment.engine_checks import EngineRecord
    from cipherdag.sites.private_files import START_LOCK, is_locked

    record = EngineRecord.load(folder.engine_path)
    if not (record.started or record.news):
        return {}
    news = record.news or "not connected yet"
    separation = record.separation or "NOTHING"
    return {
        "messages": news if is_locked(folder.path / START_LOCK) else f"when it last ran: {news}",
        # over files no process of its own carries them
        **({"files kept from the network by": separation} if record.started else {}),
        "refused": f"{record.refused} times, last {record.last_refused}" if record.refused else "",
    }


def _study_status(active: Study | None) -> dict[str, Any]:
    from cipherdag.privacy.keys.identity import STUDY_WORDS, pairing_code
    from cipherdag.sites.study.study import study_fingerprint

    if active is None:
        return {"study": "not activated"}
    return {
        "study": active.name,
        "version": active.version,
        "study code": pairing_code(study_fingerprint(active), STUDY_WORDS),
        "study fingerprint": study_fingerprint(active),
        "engine": active.engine,
        "coordinator": _REACHED_BY.get(active.engine, f"{active.host}:{active.port}"),
        "sites": sorted(active.pinned),
    }
