"""A free port, and the kits of a whole FLARE study on this machine."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from cipherdag.protocol.engines.nvflare_kit import (
    SITE_EXECUTOR,
    Kit,
    Party,
    approve_kit,
    assemble_kit,
    open_authority,
    request_kit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def loopback_kits(
    folder: Path, sites: Mapping[str, Path], *, port: int, executor: str = SITE_EXECUTOR
) -> dict[str, Kit]:
    """All kits of a study on this machine, under ``server``, ``coordinator`` and the sites' names.

    Args:
        folder: Where the kits go, one folder for each party.
        sites: Every site's own folder, by the site's name.
        port: A free port of the loopback interface.
        executor: The one class that a job may name at a site.
    """
    authority = folder / "authority"
    fingerprint = open_authority(authority, project="study", host="localhost", port=port)
    parties = {
        "server": Party("localhost", "server", "coordinator"),
        "coordinator": Party("coordinator@study.local", "admin", "coordinator"),
        **{name: Party(name, "client", "site") for name in sites},
    }
    kits: dict[str, Kit] = {}
    for name, party in parties.items():
        own = folder / name
        signed = approve_kit(authority, request_kit(own, party, project="study"))
        kits[name] = assemble_kit(
            own,
            party,
            signed,
            fingerprint=fingerprint,
            site_folder=sites.get(name),
            executor=executor,
        )
    return kits
