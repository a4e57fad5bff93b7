"""``site carry`` and ``coordinator carry``: PySyft brings the files, where no drive is shared."""

from __future__ import annotations

from pathlib import Path

import click

from cipherdag.cli.options import EXISTING_FOLDER, FILE, outside_a_run
from cipherdag.cli.site import until_stopped

CARRYING = "Carrying. Stop with Ctrl-C."
_STOPPED = "no file is carried"
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
    until_stopped(carrier.run, CARRYING)


@click.command("carry")
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
    until_stopped(carrier.run, CARRYING)
