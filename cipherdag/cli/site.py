"""The hospital's commands; like all commands they parse, call and print."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from cipherdag.cli.help import Commands
from cipherdag.cli.options import (
    EXISTING_FOLDER,
    FILE,
    FOLDER,
    NEW_FILE,
    OVERWRITE,
    folder_option,
    in_language,
    outside_a_run,
)
from cipherdag.cli.programs.printed import Activated, Coded, Made, as_json_option, printed

if TYPE_CHECKING:
    from cipherdag.sites.study.checks import CheckResult
    from cipherdag.sites.study.site_folder import SiteFolder


def commands_in_folder(
    group: click.Group, opened: Callable[[Path], Any]
) -> Callable[..., Callable[[Any], click.Command]]:
    """The decorator of a group's commands that work in a folder, which they get as ``folder``.

    It takes the command's name, what an error outside of a run leaves, whether it prints JSON if
    asked (``as_json``), and what else click's commands take.
    """

    def command(
        name: str, effect: str, *, prints: bool = True, **settings: Any
    ) -> Callable[[Any], click.Command]:
        def decorated(run: Any) -> click.Command:
            made = group.command(name, **settings)(outside_a_run(effect)(run))
            json_option = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
            made.params += [folder_option(opened), *[json_option] * prints]
            return made

        return decorated

    return command


def _site_folder(folder: Path) -> SiteFolder:
    from cipherdag.sites.study.site_folder import SiteFolder

    return SiteFolder(folder)


@click.group(cls=Commands)
def site() -> None:
    """The hospital's side: make a site, enrol it, start it, see what left."""


site_command = commands_in_folder(site, _site_folder)


@site.command("new")
@click.argument("name")
@click.option("--dir", "folder", type=FOLDER, help="New folder; called like the site if absent.")
@click.option("--organisation", default="site", show_default=True, help="Whose site it is.")
@click.option("--study", default="study", show_default=True, help="Name of the study.")
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    required=True,
    help="The study's, as the coordinator says it, such as fedpc; the policy allows no other.",
)
@click.option("--host", default="", help="Host name of the coordinator.")
@click.option("--port", type=int, default=8002, show_default=True, help="Its port.")
@click.option("--data", default="data.csv", show_default=True, help="Data, or a database's .toml.")
@click.option("--schema", default="schema.toml", show_default=True, help="The study's schema.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda or auto.")
@click.option("--files", type=FOLDER, help="Over files: this site's folder in the share.")
@as_json_option
@outside_a_run("no site was made")
def site_new(
    name: str,
    folder: Path | None,
    algorithms: tuple[str, ...],
    files: Path | None,
    *,
    as_json: bool,
    **settings: Any,
) -> None:
    """Make the folder of site NAME, with its key and commented settings.

    It is made for NVIDIA FLARE, or for a shared folder with --files. It takes part in runs of the
    study's algorithm only, and in none before a person here has approved it.
    """
    from cipherdag.algorithms.registry import algorithm_class
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings

    if files is not None:
        settings["files"] = str(files.absolute())
    for algorithm in algorithms:
        algorithm_class(algorithm)
    policy = Policy(algorithms=frozenset(algorithms))
    made = SiteFolder.create(folder or Path(name), SiteSettings(name=name, **settings), policy)
    lines = [
        f"Made {made.path}. Fill in site.toml and policy.toml, then: cipherdag site check",
        f"It will take part in runs of {', '.join(algorithms)} that a person here approves.",
    ]
    printed(Made(str(made.path), algorithms), lines, as_json=as_json)


@site_command("check", "nothing was changed, and nothing left this site")
@click.option("--plan", type=FILE, help="Check too whether the site would take part in this plan.")
@in_language
def site_check(folder: SiteFolder, plan: Path | None, code: str | None, *, as_json: bool) -> None:
    """Check everything a run needs; prints no value of the data. Exit code 0 or 4.

    With --plan it prints the plan in sentences, too.
    """
    from cipherdag.cli.programs.site_status import plan_in_words
    from cipherdag.deployment.engine_checks import separation_checks
    from cipherdag.deployment.rehearsal import plan_checks, rehearse
    from cipherdag.deployment.shared_folder import folder_checks
    from cipherdag.errors import CipherdagError, SiteNotReadyError
    from cipherdag.protocol.plan import Plan
    from cipherdag.sites.study.doctor import examine

    findings = examine(folder, rehearse=rehearse)
    if not any(finding.check == "site.toml" and finding.state == "fail" for finding in findings):
        findings += folder_checks(folder)
    if folder.study_path.exists():
        findings += separation_checks(folder)
    account = []
    if plan is not None:
        asked = Plan.read(plan)
        findings += plan_checks(folder, asked)
        with suppress(CipherdagError):  # the findings say what is wrong with the folder
            account = ["", *plan_in_words(folder, asked, folder.language(code))]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        click.echo("\n".join([*_finding_lines(findings), *account]))
    failed = [finding.check for finding in findings if finding.state == "fail"]
    if failed:
        raise SiteNotReadyError(
            f"{len(failed)} of {len(findings)} checks failed: {', '.join(failed)}",
            remedy="Do what stands under each finding, then check again.",
        )


@site_command("request", "no request was written")
@click.option("--out", type=NEW_FILE, help="File to write; NAME.request in the folder if absent.")
@OVERWRITE
def site_request(folder: SiteFolder, out: Path | None, *, as_json: bool) -> None:
    """Write the request to send to the coordinator; nothing in it is secret."""
    from cipherdag.deployment.enrolment import request_enrolment
    from cipherdag.privacy.keys.identity import fingerprint

    path, request = request_enrolment(folder, out)
    mark = fingerprint(request.identity)
    hello = f"Wrote {path}. Send it to the coordinator, and read this code aloud by telephone:"
    lines = [hello, code_lines("this site's", mark)]
    printed(coded(path, mark), lines, as_json=as_json)


@site_command("activate", "nothing was activated; the site takes part in what it did before")
@click.argument("approval", type=FILE)
@click.option(
    "--code",
    "--fingerprint",
    "code",
    default="",
    help="The coordinator's code or fingerprint; you are asked unless a certificate is renewed.",
)
@click.option("--study", "study_code", default="", help="The study's, as another site has it.")
def site_activate(
    approval: Path, code: str, study_code: str, folder: SiteFolder, *, as_json: bool
) -> None:
    """Take part in the study of APPROVAL, or in its newer version."""
    from cipherdag.deployment.enrolment import activate, code_of_renewal
    from cipherdag.privacy.keys.identity import STUDY_WORDS, pairing_code

    code = code or code_of_renewal(folder, approval) or click.prompt("The coordinator's code")
    done = activate(folder, approval, code=code, study_code=study_code)
    study, mark = done.study, done.fingerprint
    changed = (("new", done.added), ("gone", done.removed))
    lines = [
        f"Active in study '{study.name}', version {study.version}.",
        *[f"  sites {word}: {', '.join(names)}" for word, names in changed if names],
        "The other sites must find the same code of the study; compare it with them:",
        code_lines("the study's", mark, STUDY_WORDS),
        "Next: cipherdag site check, then cipherdag site start. What a person here decides,",
        "cipherdag site status shows: no plan is carried out before it is approved.",
    ]
    words = pairing_code(mark, STUDY_WORDS)
    value = Activated(study.name, study.version, done.added, done.removed, words, mark.upper())
    printed(value, lines, as_json=as_json)


@site_command("start", "the site is not running; nothing left it", prints=False)
@click.option(
    "--door",
    type=EXISTING_FOLDER,
    help="Folder where `site engine` connects as another user; without it this command starts it.",
)
def site_start(folder: SiteFolder, door: Path | None) -> None:
    """Connect to the coordinator, or wait for its messages, until stopped (Ctrl-C or SIGTERM)."""
    from cipherdag.deployment.processes import start

    until_stopped(
        partial(start, folder, announce=click.echo, door=door),
        "Started. Stop with Ctrl-C. Details: site.log",
    )


@site.command("engine")
@click.option("--door", type=EXISTING_FOLDER, required=True, help="The folder of `site start`.")
@outside_a_run("no message is carried")
def site_engine(door: Path) -> None:
    """Carry messages for a site that another user has started with the same --door.

    It has no access to the site's folder: run it as a user that may open nothing but the door.
    """
    from cipherdag.program.versions import require_flare

    require_flare()
    from cipherdag.protocol.engines.flare_site import connect, serve

    serve(connect(door))


@site_command("status", "nothing was changed")
@click.argument("session", default="")
@click.option("--details", is_flag=True, help="Say all settings, and all that the run discloses.")
@in_language
def site_status(
    session: str, folder: SiteFolder, code: str | None, *, details: bool, as_json: bool
) -> None:
    """Say which study the site is in, whether it is started, and which plans wait for approval.

    With SESSION, summarise the plan of that run, whatever was decided on it.
    """
    from cipherdag.cli.programs.site_status import run_lines, site_state, status_lines

    state, say = site_state(folder, code), folder.language(code)
    if session:
        asked = folder.approvals().find(session).session
        (run,) = (run for run in state["runs"] if run["session"] == asked)
        lines = run_lines(run, whole=True, details=details, say=say)
        click.echo(json.dumps(run, indent=2) if as_json else "\n".join(lines))
        return
    lines = status_lines(state, details=details, say=say)
    click.echo(json.dumps(state, indent=2) if as_json else "\n".join(lines))


@site_command("releases", "nothing was changed")
@click.argument("session", default="")
@click.option("--details", is_flag=True, help="Say in sentences what left in each run.")
def site_releases(session: str, folder: SiteFolder, *, details: bool, as_json: bool) -> None:
    """Say what left this site, a line for each run; read from the ledger, which is verified first.

    With SESSION, say it of that run, in sentences.
    """
    from cipherdag.audit.auditing import site_ledger
    from cipherdag.results.sentences import release_history, release_runs
    from cipherdag.sites.record.ledger import read_releases

    releases = [r for r in read_releases(site_ledger(folder)[0]) if r.session.startswith(session)]
    if as_json:
        for release in releases:
            click.echo(json.dumps(msgspec.structs.asdict(release)))
        return
    if details or session:
        lines = release_history(releases, folder.declared)
    else:
        lines = release_runs(releases)
        lines += ["In sentences: cipherdag site releases RUN, or --details of all."] * bool(lines)
    click.echo("\n".join(lines) or "Nothing has left this site.")


@site_command("result", "no result was written")
@click.argument("session", default="")
@click.option("--out", type=FOLDER, help="Folder for the report, and the result in all formats.")
@click.option("--force", is_flag=True, help="Overwrite a result that is in --out.")
def site_result(
    session: str, folder: SiteFolder, out: Path | None, *, as_json: bool, force: bool
) -> None:
    """Say what run SESSION came to, or the last one, by this site's names.

    It is computed here, from the sums that this site checked during the run.
    """
    from cipherdag.cli.options import show
    from cipherdag.results.folder import new_result_folder
    from cipherdag.results.site_result import site_result as computed

    if out is not None:
        new_result_folder(out, force=force)
    result = computed(folder, session)
    if out is not None:
        result.save(out, force=True)
    show(result, None, as_json=as_json, all_that_left="cipherdag site releases")


def coded(path: Path, fingerprint: str) -> Coded:
    """What was written, and the code of its key, as they are printed."""
    from cipherdag.privacy.keys.identity import pairing_code

    return Coded(str(path), pairing_code(fingerprint), fingerprint.upper())


def code_lines(whose: str, fingerprint: str, words: int | None = None) -> str:
    """The lines to read aloud: the code of words, and the whole fingerprint."""
    from cipherdag.privacy.keys.identity import KEY_WORDS, pairing_code

    code = pairing_code(fingerprint, words or KEY_WORDS)
    return f"  {whose} code         {code}\n  {whose} fingerprint  {fingerprint.upper()}"


def until_stopped(work: Callable[..., None], hello: str) -> None:
    """Run ``work(stopped=...)`` until the process is asked to stop, so that all it started ends.

    ``hello`` is said once it is up, which is when it asks for the first time whether to stop.
    """
    os.umask(0o077)  # whatever the processes write, nobody else reads it
    event = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: event.set())
    greeted = False

    def stopped(seconds: float) -> bool:
        nonlocal greeted
        if not greeted:
            click.echo(hello)
            greeted = True
        return event.wait(seconds)

    work(stopped=stopped)
    click.echo("Stopped.")


def _finding_lines(findings: Sequence[CheckResult]) -> list[str]:
    width = max(len(finding.check) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<4}  {finding.check:<{width}}  {finding.finding}")
        if finding.fix:
            lines.append(f"      {'':<{width}}  -> {finding.fix}")
    return lines
