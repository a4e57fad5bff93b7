"""The coordinator's commands, and those by which both ends have PySyft carry their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cipherdag.cli.connected import connected_command, plan_command, resumable_group
from cipherdag.cli.help import Commands
from cipherdag.cli.options import EXISTING_FOLDER, FILE, FOLDER, outside_a_run
from cipherdag.cli.parameters import AlgorithmGroup
from cipherdag.cli.programs.printed import Approved, as_json_option, printed
from cipherdag.cli.site import code_lines, coded, commands_in_folder, until_stopped
from cipherdag.privacy.protections import PROTECTING, PROTECTIONS

if TYPE_CHECKING:
    from cipherdag.deployment.coordinator_folder import CoordinatorFolder
    from cipherdag.sites.study.study import EngineName, Request


def _coordinator_folder(folder: Path) -> CoordinatorFolder:
    from cipherdag.deployment.coordinator_folder import CoordinatorFolder

    return CoordinatorFolder(folder)


valid_days_option = click.option(
    "--valid-days",
    type=click.IntRange(1, 1095),
    default=90,
    show_default=True,
    help="How long the sites' certificates are valid.",
)


@click.group(cls=Commands)
def coordinator() -> None:
    """The coordinator's side: open a study, enrol sites, run, revoke a site."""
    from cipherdag.privacy.secrecy import leave_no_core

    leave_no_core()


coordinator_command = commands_in_folder(coordinator, _coordinator_folder)
coordinator.add_command(
    resumable_group("run", connected_command, "Run an algorithm over the enrolled sites")
)
coordinator.add_command(
    AlgorithmGroup("plan", plan_command, help="Print a plan for the enrolled sites; send nothing.")
)


@coordinator.command("new")
@click.option("--dir", "folder", type=FOLDER, default=".", help="New folder; this one if absent.")
@click.option("--study", required=True, help="Name of the study.")
@click.option("--host", default="", help="Host name at which sites reach this machine.")
@click.option("--port", type=int, default=8002, show_default=True, help="The one port.")
@click.option("--min-sites", type=int, default=3, show_default=True, help="Fewest sites of a run.")
@click.option(
    "--protection",
    "protections",
    type=click.Choice(list(PROTECTIONS)),
    multiple=True,
    default=PROTECTING,
    show_default=True,
    help="What runs may use.",
)
@click.option(
    "--colluders",
    type=click.IntRange(min=0),
    help="Sites that may side with the coordinator and still see sums only; 1 if absent.",
)
@click.option(
    "--engine",
    type=click.Choice(["flare", "files"]),
    default="flare",
    show_default=True,
    help="Sites connect here over FLARE, which needs --host; or messages are files in --files.",
)
@click.option("--files", type=FOLDER, help="The shared folder, with --engine files.")
@as_json_option
@outside_a_run("no study was opened")
def coordinator_new(
    folder: Path,
    protections: tuple[str, ...],
    host: str,
    port: int,
    engine: EngineName,
    files: Path | None,
    *,
    as_json: bool,
    **settings: Any,
) -> None:
    """Open a study in a new folder: its keys, and with FLARE its certificates."""
    if (engine == "flare") != bool(host):
        raise click.UsageError("--host is needed with --engine flare, and with that alone")
    if (engine == "files") != (files is not None):
        raise click.UsageError("--files is needed with --engine files, and with that alone")
    if engine == "flare":
        settings |= {"host": host, "port": port}
    if files is not None:
        settings["files"] = str(files)
    from cipherdag.deployment.coordinator_folder import CoordinatorFolder

    made = CoordinatorFolder.create(folder, protections=protections, engine=engine, **settings)
    hello = f"Made {made.path}. Every site needs this code, read aloud and not by e-mail:"
    lines = [hello, code_lines("the coordinator's", made.fingerprint)]
    printed(coded(made.path, made.fingerprint), lines, as_json=as_json)


@coordinator_command("approve", "no site was enrolled")
@click.argument("requests", nargs=-1, required=True, type=FILE)
@click.option(
    "--code",
    "--fingerprint",
    "codes",
    multiple=True,
    help="A site's code or fingerprint, as read aloud to you; one for each request. You are asked "
    "if there is none.",
)
@valid_days_option
def coordinator_approve(
    requests: tuple[Path, ...],
    codes: tuple[str, ...],
    folder: CoordinatorFolder,
    *,
    valid_days: int,
    as_json: bool,
) -> None:
    """Enrol the sites of some REQUESTS, or renew their certificates; write what to send."""
    spare = set(codes).difference(
        *[_confirm(folder.read_request(path), codes, quiet=as_json) for path in requests]
    )
    if spare:
        raise click.UsageError(
            f"{len(spare)} of the codes given are of no request here: was a request replaced?"
        )
    done = _approved(folder.approve(requests, valid_days=valid_days), folder)
    lines = [*_send(done), f"The study has {done.sites} sites; a run needs {done.needed}."]
    printed(done, lines, as_json=as_json)


@coordinator_command("sites", "nothing was changed")
@click.option("--live", is_flag=True, help="Ask the server, or every site, who is there.")
def coordinator_sites(folder: CoordinatorFolder, *, live: bool, as_json: bool) -> None:
    """List the study's sites."""
    from cipherdag.deployment.shared_folder import connected_sites
    from cipherdag.privacy.keys.identity import fingerprint, pairing_code

    study = folder.study()
    connected = connected_sites(folder.path, study, folder.share) if live else None
    rows = [
        {
            "site": site.name,
            "state": "enrolled",
            "code": pairing_code(fingerprint(site.identity)),
            "fingerprint": fingerprint(site.identity).upper(),
        }
        for site in study.sites
    ]
    rows += [
        {"site": name, "state": "revoked", "code": "", "fingerprint": ""} for name in study.revoked
    ]
    for row in rows:
        if connected is not None and row["site"] in connected:
            row["state"] = "connected"
    if as_json:
        about = {"code": pairing_code(folder.fingerprint), "coordinator": folder.fingerprint}
        click.echo(json.dumps(about | {"sites": rows}, indent=2))
        return
    click.echo(f"study '{study.name}', version {study.version}")
    click.echo(code_lines("the coordinator's", folder.fingerprint))
    for row in rows:
        click.echo(f"  {row['site']:<20} {row['state']:<10} {row['code']}".rstrip())
    if connected is not None:
        click.echo(f"{len(connected & study.pinned.keys())} of {len(study.sites)} sites connected")


@coordinator_command("renew", "no certificate was renewed")
@valid_days_option
def coordinator_renew(folder: CoordinatorFolder, *, valid_days: int, as_json: bool) -> None:
    """Renew the certificates of all sites and of the server; write what to send.

    Keys, study and codes stay. Start the server again. Each site stops, activates its approval and
    starts: only a start takes a new certificate.
    """
    done = _approved(folder.renew(valid_days=valid_days), folder)
    hello = "Certificates are renewed. Start the server again, and send every site its approval:"
    next_ = "Each site stops, runs `cipherdag site activate` on it, then `cipherdag site start`."
    printed(done, [hello, *_send(done), next_], as_json=as_json)


@coordinator_command("revoke", "nothing was changed")
@click.argument("name")
def coordinator_revoke(name: str, folder: CoordinatorFolder, *, as_json: bool) -> None:
    """Revoke site NAME in the study and at the server, and write the others' new approvals."""
    done = _approved(folder.revoke(name), folder)
    hello = f"'{name}' is revoked. The others pin it until they activate their new approval:"
    printed(done, [hello, *_send(done)], as_json=as_json)


@coordinator_command("start", "the server is not running", prints=False)
def coordinator_start(folder: CoordinatorFolder) -> None:
    """Run the server that the sites connect to, until stopped (Ctrl-C or SIGTERM)."""
    from cipherdag.deployment.processes import serve

    until_stopped(partial(serve, folder, announce=click.echo), "Started. Stop with Ctrl-C.")


def _confirm(request: Request, codes: tuple[str, ...], *, quiet: bool) -> set[str]:
    """The codes of a request that were given, or are typed now as the site reads them aloud."""
    from cipherdag.errors import SignatureError
    from cipherdag.privacy.keys.identity import fingerprint, mismatch

    versions = ", ".join(f"{name} {each}" for name, each in sorted(request.versions.items()))
    click.echo(f"site '{request.name}' of '{request.organisation}', with {versions}", err=quiet)
    # not shown before it is typed: what can be copied from the screen is not heard
    ask = f"  The code that '{request.name}' reads aloud to you"
    heard = codes or (click.prompt(ask, err=quiet),)
    differ = [mismatch(code, fingerprint(request.identity)) for code in heard]
    if all(differ):
        only = f": {differ[0]}" if len(differ) == 1 else ""
        raise SignatureError(
            f"no code given is that of the request's key{only}",
            site=request.name,
            remedy="Call the site and have it read its code again; if it still differs, the "
            "request was replaced on its way: do not approve it, and tell the site.",
        )
    click.echo(code_lines("its", fingerprint(request.identity)), err=quiet)
    return {code for code, wrong in zip(heard, differ, strict=True) if not wrong}


def _approved(approvals: Mapping[str, Path], folder: CoordinatorFolder) -> Approved:
    study = folder.study()
    send = {name: str(path) for name, path in approvals.items()}
    return Approved(len(study.sites), study.min_sites, send)


def _send(done: Approved) -> list[str]:
    return [f"  send to '{name}': {path}" for name, path in done.send.items()]


_CARRYING, _STOPPED = "Carrying. Stop with Ctrl-C.", "no file is carried"
STUDY = click.option("--study", required=True, help="Name of the study.")
EMAIL = click.option("--email", required=True, help="This end's account of Google Drive.")
TOKEN = click.option("--token", type=FILE, required=True, help="The token Google gave for it.")


@click.command("carry")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--coordinator", required=True, help="The coordinator's account of Google Drive.")
@STUDY
@EMAIL
@TOKEN
@outside_a_run(_STOPPED)
def site_carry(folder: Path, coordinator: str, study: str, email: str, token: Path) -> None:
    """Have PySyft carry the files in FOLDER, this site's of `site new --files`, until stopped.

    It agrees to be a peer of the coordinator's account, and of no other.
    """
    from cipherdag.protocol.engines.folder import TO_COORDINATOR
    from cipherdag.protocol.engines.pysyft_carrier import Peer, PySyftCarrier, log_in

    client, peers = log_in(email, token), [Peer(coordinator, folder.absolute())]
    carrier = PySyftCarrier(client, peers, study=study, outgoing=TO_COORDINATOR)
    until_stopped(carrier.run, _CARRYING)


@coordinator.command("carry")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option(
    "--site",
    "sites",
    multiple=True,
    required=True,
    help="NAME=ACCOUNT of a site's Google Drive; for several sites several times.",
)
@STUDY
@EMAIL
@TOKEN
@outside_a_run(_STOPPED)
def coordinator_carry(
    folder: Path, sites: tuple[str, ...], study: str, email: str, token: Path
) -> None:
    """Have PySyft carry the files in FOLDER, that of `coordinator new --files`, until stopped.

    It asks the sites' accounts to be its peers.
    """
    from cipherdag.protocol.engines.folder import TO_SITE
    from cipherdag.protocol.engines.pysyft_carrier import Peer, PySyftCarrier, log_in

    named = [site.partition("=") for site in sites]
    if not all(name and account for name, _, account in named):
        raise click.UsageError("--site is like north=north@example.org")
    peers = [Peer(account, folder.absolute() / name) for name, _, account in named]
    carrier = PySyftCarrier(log_in(email, token), peers, study=study, outgoing=TO_SITE)
    until_stopped(carrier.run, _CARRYING)
