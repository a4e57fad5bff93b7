"""The coordinator's commands, and the export of a ledger for an auditor."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from cipherdag.fedpc_cli import PARAMETERS, fedpc_algorithm
from cipherdag.site_cli import FILE, FOLDER, NEW_FILE, as_json_option, in_folder, until_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cipherdag.protocol.reports import RoundReport

NOT_CONNECTED = frozenset(
    {"schema", "device", "truth", "min_cell_size"}
)  # options of runs in one process


@click.group()
def coordinator() -> None:
    """The coordinator's side: open a study, enrol sites, run, shut a site out."""


@coordinator.group("run")
def coordinator_run() -> None:
    """Run an algorithm over the enrolled sites."""


@coordinator.command("new")
@click.option("--dir", "folder", type=FOLDER, default=".", help="New folder; this one if absent.")
@click.option("--study", required=True, help="Name of the study.")
@click.option("--host", required=True, help="Host name at which sites reach this machine.")
@click.option("--port", type=int, default=8002, show_default=True, help="The one port.")
@click.option("--min-sites", type=int, default=3, show_default=True, help="Fewest sites of a run.")
@click.option(
    "--protection",
    "protections",
    type=click.Choice(["masking", "bfv", "none"]),
    multiple=True,
    default=("masking", "bfv"),
    show_default=True,
    help="What runs may use.",
)
def coordinator_new(folder: Path, protections: tuple[str, ...], **settings: Any) -> None:
    """Open a study in a new folder: key, certificate authority, and kits of the server."""
    from cipherdag.coordinating import CoordinatorFolder

    made = CoordinatorFolder.create(folder, protections=protections, **settings)
    click.echo(f"Made {made.path}. Every site needs, read aloud and not by e-mail:")
    click.echo(f"  the coordinator's fingerprint  {made.fingerprint}")


@coordinator.command("approve")
@click.argument("requests", nargs=-1, required=True, type=FILE)
@click.option(
    "--fingerprint",
    "fingerprints",
    multiple=True,
    help="A site's, as read aloud to you; one for each request. You are asked if there is none.",
)
@in_folder
def coordinator_approve(
    requests: tuple[Path, ...], fingerprints: tuple[str, ...], folder: Path
) -> None:
    """Enrol the sites of some REQUESTS and write the approvals to send."""
    from cipherdag.coordinating import CoordinatorFolder

    own = CoordinatorFolder(folder)
    for path in requests:
        _confirm(own.read_request(path), fingerprints)
    _list_approvals(own.approve(requests))
    study = own.study()
    click.echo(f"The study has {len(study.sites)} sites; a run needs {study.min_sites}.")


@coordinator.command("sites")
@in_folder
@click.option("--live", is_flag=True, help="Ask the running server who is connected.")
@as_json_option
def coordinator_sites(folder: Path, *, live: bool, as_json: bool) -> None:
    """List the study's sites."""
    from cipherdag.coordinating import CoordinatorFolder
    from cipherdag.privacy.identity import fingerprint

    own = CoordinatorFolder(folder)
    study = own.study()
    connected = _connected(own) if live else None
    rows = [
        {"site": s.name, "state": "enrolled", "fingerprint": fingerprint(s.identity).upper()}
        for s in study.sites
    ] + [{"site": name, "state": "revoked", "fingerprint": ""} for name in study.revoked]
    for row in rows:
        if connected is not None and row["site"] in connected:
            row["state"] = "connected"
    if as_json:
        click.echo(json.dumps({"coordinator": own.fingerprint, "sites": rows}, indent=2))
        return
    click.echo(f"study '{study.name}', version {study.version}, coordinator {own.fingerprint}")
    for row in rows:
        click.echo(f"  {row['site']:<20} {row['state']:<10} {row['fingerprint']}")
    if connected is not None:
        click.echo(f"{len(connected & study.pinned.keys())} of {len(study.sites)} sites connected")


@coordinator.command("revoke")
@click.argument("name")
@in_folder
def coordinator_revoke(name: str, folder: Path) -> None:
    """Shut site NAME out of the study and of the server, and write the others' new approvals."""
    from cipherdag.coordinating import CoordinatorFolder

    approvals = CoordinatorFolder(folder).revoke(name)
    click.echo(f"'{name}' is shut out. The others pin it until they activate their new approval:")
    _list_approvals(approvals)


@coordinator.command("start")
@in_folder
def coordinator_start(folder: Path) -> None:
    """Run the FLARE server, until stopped (Ctrl-C or SIGTERM)."""
    from cipherdag.coordinating import CoordinatorFolder

    until_stopped(
        lambda stopped: CoordinatorFolder(folder).start(stopped=stopped),
        "Started. Stop with Ctrl-C.",
    )


@click.command("export")
@click.argument("folder", type=FOLDER)
@click.option("--out", type=NEW_FILE, required=True, help="File to write.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv"]),
    default="jsonl",
    show_default=True,
    help="jsonl keeps chain and signatures; csv is for reading.",
)
def audit_export(folder: Path, out: Path, kind: str) -> None:
    """Write the verified ledger of a site's FOLDER, or the transcript of a run's, to a file."""
    from cipherdag.auditing import export

    click.echo(f"Wrote {export(folder, out, kind)} records to {out}")


def register(
    cli: click.Group,
    *,
    site: click.Group,
    audit: click.Group,
    fedpc_options: Callable[[Callable[..., None]], Callable[..., None]],
) -> None:
    """Add these commands and the site's to the command line."""
    decorated = fedpc_options(_run_fedpc)
    parameters: list[click.Parameter] = decorated.__click_params__  # type: ignore[attr-defined]
    parameters[:] = [p for p in parameters if p.name not in NOT_CONNECTED]
    coordinator_run.command("fedpc")(decorated)
    cli.add_command(site)
    cli.add_command(coordinator)
    audit.add_command(audit_export)


@in_folder
@click.option("--timeout", type=float, default=600.0, show_default=True, help="Seconds per step.")
@click.option(
    "--wait-for-approval",
    "approval_s",
    type=float,
    default=0.0,
    show_default=True,
    help="Seconds to wait for sites where a person approves every run.",
)
def _run_fedpc(folder: Path, *, timeout: float, approval_s: float, **options: Any) -> None:
    """FedPC over the enrolled sites; names stay there, the result speaks of identifiers."""
    from cipherdag.federation import Federation
    from cipherdag.result import writable_folder
    from cipherdag.terminal import heading, result_lines, round_line

    if options["out"] is not None:
        writable_folder(options["out"])
    as_json = options["as_json"]
    federation = Federation.connect(
        folder, protection=options["protection"], timeout_s=timeout, approval_s=approval_s
    )
    algorithm = fedpc_algorithm(options)

    def progress(report: RoundReport) -> None:
        click.echo(json.dumps({"round": asdict(report)}) if as_json else round_line(report))

    if not as_json:
        click.echo(heading("FedPC", len(federation.study.sites), federation.protection))
    result = federation.run(
        algorithm,
        seed=options["seed"],
        progress=progress,
        source=_source(folder, options),
    )
    if options["out"] is not None:
        result.save(options["out"])
    if as_json:
        click.echo(json.dumps({"result": result.to_dict()}))
        return
    click.echo("\n".join(result_lines(result)))
    click.echo(f"Journal, transcript and the signed result for the sites: {federation.folder.runs}")


def _source(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "command": "coordinator run",
        "folder": str(folder.resolve()),
        "algorithm": "fedpc",
        "protection": options["protection"],
        "seed": options["seed"],
        "parameters": {name: options[name] for name in PARAMETERS},
    }


def _confirm(request: Any, fingerprints: tuple[str, ...]) -> None:
    """Let a request pass whose fingerprint was given or is confirmed by a person."""
    from cipherdag.errors import SignatureError
    from cipherdag.privacy.identity import fingerprint
    from cipherdag.sites.study import same_fingerprint

    own = fingerprint(request.identity).upper()
    click.echo(
        f"site '{request.name}' of '{request.organisation}', role client, versions:", nl=False
    )
    click.echo(" " + ", ".join(f"{k} {v}" for k, v in sorted(request.versions.items())))
    click.echo(f"  fingerprint  {own}")
    if fingerprints:
        if not any(same_fingerprint(own, given) for given in fingerprints):
            raise SignatureError(
                "the request's key has none of the fingerprints given",
                site=request.name,
                remedy="Call the site; if it reads another one, its request was replaced.",
            )
    else:
        click.confirm("  Did the site read this fingerprint aloud to you?", abort=True)


def _list_approvals(approvals: Mapping[str, Path]) -> None:
    for name, path in approvals.items():
        click.echo(f"  send to '{name}': {path}")


def _connected(own: Any) -> set[str]:
    from cipherdag.protocol.engines.nvflare_admin import connected_sites

    return set(connected_sites(own.kit("admin")))
