"""``audit``: read and check what left each site, and bundle a result with its evidence."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from cipherdag.cli.help import Commands
from cipherdag.cli.options import EXISTING_FOLDER, FILE, NEW_FILE, OVERWRITE
from cipherdag.cli.programs.printed import Bundled, Exported, as_json_option, printed
from cipherdag.cli.site import code_lines

if TYPE_CHECKING:
    from cipherdag.audit.auditing import LedgerCheck
    from cipherdag.audit.bundle import BundleCheck

UNSIGNED = "none, so anybody can have made these files"
EXISTING = click.Path(exists=True, path_type=Path)


@click.group(cls=Commands)
def audit() -> None:
    """Read and check what left each site."""


@audit.command("export")
@click.argument("folder", type=EXISTING)
@click.option("--out", type=NEW_FILE, required=True, help="File to write.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv", "html"]),
    default="jsonl",
    show_default=True,
    help="jsonl keeps chain and signatures; csv is for tables; html is a page for the "
    "data-protection officer.",
)
@click.option("--site", default="", help="Whose ledger, of a saved result with several.")
@OVERWRITE
@as_json_option
def audit_export(folder: Path, out: Path, kind: str, site: str, *, as_json: bool) -> None:
    """Verify the ledger of a site, or the transcript of a run, and write it to a file.

    FOLDER is that of the site or run, a ledger that a site exported, or a saved result.
    """
    from cipherdag.audit.auditing import export

    records = export(folder, out, kind, site=site)
    printed(Exported(str(out), records), [f"Wrote {records} records to {out}"], as_json=as_json)


@audit.command("bundle")
@click.argument("result", type=EXISTING_FOLDER)
@click.option("--out", type=NEW_FILE, required=True, help="Zip file to write.")
@click.option("--run", default="", help="First digits of a site's run; its last run if absent.")
@click.option("--site", "bundles", type=FILE, multiple=True, help="A site's bundle, to add.")
@OVERWRITE
@as_json_option
def audit_bundle(
    result: Path, out: Path, run: str, bundles: tuple[Path, ...], *, as_json: bool
) -> None:
    """Bundle a result with its evidence in one file (Five Safes RO-Crate).

    RESULT is a saved result of a run in one process, a run's folder under runs/ of the coordinator,
    or a site's folder. The file holds no rows and no private keys; `cipherdag audit verify` checks
    it on any machine.
    """
    from cipherdag.audit.bundle import bundle

    contents = bundle(result, out, run=run, bundles=bundles)
    signer = f", signed by {contents.signer}" if contents.signer else ""
    lines = [f"Wrote {len(contents.files)} files to {out}{signer}"]
    printed(Bundled(str(out), len(contents.files), contents.signer), lines, as_json=as_json)


@audit.command("verify")
@click.argument("folder", type=EXISTING)
@click.option("--ledger", "ledgers", type=FILE, multiple=True, help="A site's exported ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def audit_verify(folder: Path, ledgers: tuple[Path, ...], *, as_json: bool) -> None:
    """Check every ledger of a result or site: chain, signatures, and that none was cut.

    With --ledger, FOLDER is that of a coordinator's run. Each site's ledger is then compared with
    what the coordinator received. Standard error names the lines before which a site's clock ran
    backwards; the check does not fail for that.

    FOLDER may also be a bundle that `cipherdag audit bundle` wrote. Its plan, approvals, ledgers
    and the digest of every file are checked.
    """
    from cipherdag.audit.auditing import verify
    from cipherdag.audit.bundle import verify_bundle

    if folder.is_file():
        if ledgers:
            raise click.UsageError("--ledger goes with the folder of a coordinator's run")
        _show_bundle(verify_bundle(folder), as_json=as_json)
        return
    checks = verify(folder, ledgers)
    for check in checks:
        if check.remark:
            click.echo(f"{check.head.site}: {check.remark}", err=True)
    if as_json:
        click.echo(json.dumps({check.head.site: asdict(check.head) for check in checks}))
        return
    for check in checks:
        click.echo(f"{check.head.site}: {_verified(check)}")


@audit.command("show")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per release.")
def audit_show(folder: Path, *, as_json: bool) -> None:
    """Say in sentences what left each site of a result, or the site whose folder it is."""
    from cipherdag.audit.auditing import site_ledger, what_left
    from cipherdag.results.folder import read_folder_releases
    from cipherdag.sites.record.ledger import read_releases
    from cipherdag.sites.study.site_folder import SiteFolder

    if as_json:
        site = SiteFolder(folder)
        if site.settings_path.exists():
            ledgers = [read_releases(site_ledger(site)[0])]
        else:
            ledgers = [*read_folder_releases(folder).values()]
        for record in chain.from_iterable(ledgers):
            click.echo(json.dumps(msgspec.structs.asdict(record)))
        return
    click.echo("\n".join(what_left(folder) or ["Nothing has left this site."]))
    click.echo("--json lists every release one by one, each with its size.")


def _verified(ledger: LedgerCheck) -> str:
    head = ledger.head
    return f"{head.records} records, unbroken, signed; last hash {head.hash[:16]}{ledger.received}"


def _show_bundle(check: BundleCheck, *, as_json: bool) -> None:
    """Say what a bundle shows, and what a person still has to compare."""
    from cipherdag.pages.files import printable

    if as_json:
        plan = None if check.plan is None else check.plan.digest.hex()
        heads = {ledger.head.site: asdict(ledger.head) for ledger in check.ledgers}
        value = {"files": check.files, "plan": plan, "approved": check.approved, "ledgers": heads}
        signers = {"signed_by": check.signer or None, "coordinator": check.coordinator}
        click.echo(json.dumps(value | signers))
        return
    click.echo(f"files: {check.files}, each as it was bundled")
    if check.plan is not None:
        sites = ", ".join(member.name for member in check.plan.cohort)
        click.echo(f"plan: {check.plan.algorithm} over {sites}; digest {check.plan.digest.hex()}")
    for site in check.approved:
        click.echo(f"approval: '{printable(site)}' approved this plan, signed")
    for ledger in check.ledgers:
        click.echo(f"ledger: {printable(ledger.head.site)}: {_verified(ledger)}")
    signer = f"by {printable(check.signer)}, over all files" if check.signer else UNSIGNED
    click.echo(f"signature: {signer}")
    if check.coordinator:
        click.echo("compare by telephone, since a bundle cannot show whose keys these are:")
        click.echo(code_lines("coordinator's", check.coordinator))
    else:
        click.echo("not shown: whose keys signed the ledgers; the bundle holds no study")
