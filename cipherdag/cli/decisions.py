"""The commands by which a person of a site decides on a plan."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from cipherdag.cli.programs.printed import Decided, printed
from cipherdag.cli.site import site_command

if TYPE_CHECKING:
    from cipherdag.sites.policy.approvals import AskedRun, Person
    from cipherdag.sites.study.site_folder import SiteFolder


def _by_a_person(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say who decides; both are signed, and neither can be checked."""
    whose = "Who decides; without it the account that runs this command."
    role = click.option("--role", default="", help="The person's role, such as data protection.")
    return click.option("--name", default="", help=whose)(role(command))


@site_command("approve", "nothing was decided")
@click.argument("session")
@_by_a_person
@click.option("--yes", is_flag=True, help="Do not ask again where the run would show an answer.")
def site_approve(
    session: str, folder: SiteFolder, name: str, role: str, *, yes: bool, as_json: bool
) -> None:
    """Approve the plan of run SESSION, which `site status` shows, and sign its digest.

    If the policy's `approvers` is 2 or more, as many persons approve it, each with a --name.
    """
    from cipherdag.sites.study.doctor import question_of_visits

    approvals = folder.approvals()
    asked = approvals.find(session)
    for question in question_of_visits(folder):
        click.echo(question, err=as_json)
    if asked.consider:
        click.echo(f"Consider: {asked.consider}.", err=as_json)
        if not yes:
            click.confirm("Do the sites concerned agree, and may it run?", abort=True)
    run = approvals.decide(session, "approved", folder.identity(), _person(name, role))
    done = _decided(run, folder)
    lines = [f"Approved run {run.session[:8]}: {done.algorithm}, {done.protection}.", *done.by]
    if run.decision == "waits":
        left = run.approvers - len(run.decisions)
        lines.append(f"It still waits here: {left} more must approve it, each with a --name.")
    else:
        lines.append("It begins once all sites have approved it.")
    if not done.started:
        lines.append(
            "This site is not started, and takes part only while it is: cipherdag site start"
        )
    printed(done, lines, as_json=as_json)


@site_command("deny", "nothing was decided")
@click.argument("session")
@_by_a_person
@click.option("--why", required=True, help="The reason; it stays at this site.")
def site_deny(
    session: str, folder: SiteFolder, name: str, role: str, why: str, *, as_json: bool
) -> None:
    """Deny the plan of run SESSION, which `site status` shows, and sign its digest."""
    approvals, person = folder.approvals(), _person(name, role)
    run = approvals.decide(session, "denied", folder.identity(), person, note=why)
    done = _decided(run, folder)
    lines = [
        f"Denied run {run.session[:8]}: {done.algorithm}, {done.protection}.",
        *done.by,
        "The coordinator hears that it was denied; the reason stays here.",
    ]
    printed(done, lines, as_json=as_json)


def _person(name: str, role: str) -> Person:
    """Who decides: the name that was given, else the account's."""
    from cipherdag.sites.policy.approvals import Person

    if not name:
        with suppress(OSError, KeyError):  # a container's user may have no name
            name = getpass.getuser()
    return Person(name, role)


def _decided(run: AskedRun, folder: SiteFolder) -> Decided:
    """A decision as it is printed."""
    from cipherdag.sites.private_files import START_LOCK, is_locked

    started, plan = is_locked(folder.path / START_LOCK), run.plan
    by = tuple(each.in_words for each in run.decisions)
    return Decided(run.session, run.decision, plan.algorithm, plan.protection, started, by)
