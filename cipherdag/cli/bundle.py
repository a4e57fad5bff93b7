"""The command that bundles a result with its evidence, and what is said of a bundle."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cipherdag.cli.options import EXISTING_FOLDER, FILE, NEW_FILE, OVERWRITE
from cipherdag.cli.programs.printed import Bundled, as_json_option, printed
from cipherdag.cli.site import code_lines

if TYPE_CHECKING:
    from cipherdag.audit.bundle import BundleCheck


@click.command("bundle")
@click.argument("result", type=EXISTING_FOLDER)
@click.option("--out", type=NEW_FILE, required=True, help="Zip file to write.")
@click.option("--run", default="", help="First digits of a site's run; its last run if absent.")
@click.option(
    "--site",
    "bundles",
    type=FILE,
    multiple=True,
    help="A site's bundle, to add.",
)
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


def show_bundle(check: BundleCheck, *, as_json: bool) -> None:
    """Say what a bundle shows, and what a person still has to compare."""
    from cipherdag.sites.policy.plan_account import printable

    if as_json:
        click.echo(json.dumps(_as_json(check)))
        return
    click.echo(f"files: {check.files}, each as it was bundled")
    if check.plan is not None:
        sites = ", ".join(member.name for member in check.plan.cohort)
        click.echo(f"plan: {check.plan.algorithm} over {sites}; digest {check.plan.digest.hex()}")
    for site in check.approved:
        click.echo(f"approval: '{printable(site)}' approved this plan, signed")
    for ledger in check.ledgers:
        head = ledger.head
        said = f"{head.records} records, unbroken, signed; last hash {head.hash[:16]}"
        click.echo(f"ledger: {printable(head.site)}: {said}{ledger.received}")
    if check.signer:
        click.echo(f"signature: by {printable(check.signer)}, over all files")
    if check.coordinator:
        click.echo("compare by telephone, since a bundle cannot show whose keys these are:")
        click.echo(code_lines("coordinator's", check.coordinator))
    else:
        click.echo("not shown: whose keys signed the ledgers; the bundle holds no study")


def _as_json(check: BundleCheck) -> dict[str, object]:
    return {
        "files": check.files,
        "plan": None if check.plan is None else check.plan.digest.hex(),
        "approved": list(check.approved),
        "ledgers": {ledger.head.site: asdict(ledger.head) for ledger in check.ledgers},
        "signed_by": check.signer or None,
        "coordinator": check.coordinator,
    }
