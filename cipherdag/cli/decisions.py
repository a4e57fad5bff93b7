"""The commands by which a person of a site decides on a plan, and the record of what was."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cipherdag.cli.options import NEW_FILE, OVERWRITE, in_language
from cipherdag.cli.programs.printed import Decided, Exported, printed
from cipherdag.cli.site import site_command
from cipherdag.pages.numerals import counted

if TYPE_CHECKING:
    from cipherdag.pages.language import Language
    from cipherdag.sites.policy.approvals import AskedRun, Person
    from cipherdag.sites.study.site_folder import SiteFolder


def _by_a_person(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say who decides; both are signed, and neither can be checked."""
    whose = "Who decides; without it the account that runs this command."
    role = click.option("--role", default="", help="The person's role, such as data protection.")
    return click.option("--name", default="", help=whose)(role(in_language(command)))


@site_command("approve", "nothing was decided")
@click.argument("session")
@_by_a_person
@click.option("--yes", is_flag=True, help="Do not ask again where the run would show an answer.")
def site_approve(
    session: str,
    folder: SiteFolder,
    name: str,
    role: str,
    code: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Approve the plan of run SESSION, which `site status` shows, and sign its digest.

    If the policy's `approvers` is 2 or more, as many persons approve it, each with a --name.
    """
    from cipherdag.sites.study.doctor import question_of_visits

    approvals, say = folder.approvals(), folder.language(code)
    asked = approvals.find(session)
    for question in question_of_visits(folder, say):
        click.echo(question, err=as_json)
    if asked.consider:
        click.echo(say("Consider: {sentences}.", sentences=asked.considered(say)), err=as_json)
        if not yes:
            click.confirm(say("Do the sites concerned agree, and may it run?"), abort=True)
    person, identity = _person(name, role), folder.identity()
    run = approvals.decide(session, "approved", identity, person, language=say.code)
    done = _decided(run, folder, say)
    lines = [say("Approved run {run}: {algorithm}, {protection}.", **_named(done)), *done.by]
    if run.decision == "waits":
        lines.append(
            say.counted(
                "It still waits here: {n} more must approve it, each with a --name.",
                "It still waits here: {n} more must approve it, each with a --name.",
                run.approvers - len(run.decisions),
            )
        )
    else:
        lines.append(say("It begins once all sites have approved it."))
    if not done.started:
        lines.append(
            say(
                "This site is not started, and takes part only while it is: {command}",
                command="cipherdag site start",
            )
        )
    printed(done, lines, as_json=as_json)


@site_command("deny", "nothing was decided")
@click.argument("session")
@_by_a_person
@click.option("--why", required=True, help="The reason; it stays at this site.")
def site_deny(
    session: str,
    folder: SiteFolder,
    name: str,
    role: str,
    code: str | None,
    why: str,
    *,
    as_json: bool,
) -> None:
    """Deny the plan of run SESSION, which `site status` shows, and sign its digest."""
    person, identity, say = _person(name, role), folder.identity(), folder.language(code)
    about = {"note": why, "language": say.code}
    run = folder.approvals().decide(session, "denied", identity, person, **about)
    done = _decided(run, folder, say)
    lines = [
        say("Denied run {run}: {algorithm}, {protection}.", **_named(done)),
        *done.by,
        say("The coordinator hears that it was denied; the reason stays here."),
    ]
    printed(done, lines, as_json=as_json)


@site_command("register", "no register was written")
@click.option("--out", type=NEW_FILE, help="Write it as CSV instead, a row for each run.")
@OVERWRITE
@in_language
def site_register(folder: SiteFolder, out: Path | None, code: str | None, *, as_json: bool) -> None:
    """Print the record of processing (GDPR, Article 30): each run, who asked, who decided.

    It says, too, the purpose, the columns, what the run disclosed, and what sites that collude
    could learn. It reads this site's files alone, and verifies the ledger first.
    """
    from cipherdag.audit.register import register, register_csv, register_lines
    from cipherdag.protocol.durable_files import write_whole

    say = folder.language(code)
    runs = register(folder, say)
    if out is None:
        printed(runs, list(register_lines(runs, say)), as_json=as_json)
        return
    write_whole(out, register_csv(runs))
    lines = [f"Wrote {counted(len(runs), 'run')} to {out}"]
    printed(Exported(str(out), len(runs)), lines, as_json=as_json)


def _person(name: str, role: str) -> Person:
    """Who decides: the name that was given, else the account's."""
    from cipherdag.sites.policy.approvals import Person

    if not name:
        with suppress(OSError, KeyError):  # a container's user may have no name
            name = getpass.getuser()
    return Person(name, role)


def _named(done: Decided) -> dict[str, str]:
    """What a message on a decision names of its run."""
    algorithm, protection = done.algorithm, done.protection
    return {"run": done.session[:8], "algorithm": algorithm, "protection": protection}


def _decided(run: AskedRun, folder: SiteFolder, say: Language) -> Decided:
    """A decision as it is printed."""
    from cipherdag.sites.private_files import START_LOCK, is_locked

    started, plan = is_locked(folder.path / START_LOCK), run.plan
    by = tuple(each.in_words(say) for each in run.decisions)
    return Decided(run.session, run.decision, plan.algorithm, plan.protection, started, by)
