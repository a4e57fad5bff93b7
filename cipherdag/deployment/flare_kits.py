"""What FLARE needs once: an authority and the coordinator's start-up kits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.sites.study.study import root_hex

if TYPE_CHECKING:
    from pathlib import Path

ORGANISATION = "coordinator"


def make_flare_kits(folder: Path, *, study: str, host: str, port: int) -> str:
    """Make FLARE's authority and the coordinator's kits.

    Args:
        folder: The coordinator's folder.
        study: Name of the study.
        host: Host name at which the sites reach the server.
        port: Its one port.

    Returns:
        The study's root: the fingerprint of the authority, hexadecimal.

    Raises:
        SiteNotReadyError: FLARE failed.
    """
    from cipherdag.protocol.engines import nvflare_kit as kits
    from cipherdag.protocol.engines.nvflare_admin import allow_shutting_out

    authority = folder / "authority"
    fingerprint = kits.open_authority(authority, project=study, host=host, port=port)
    parties = {
        "server": kits.Party(host, "server", ORGANISATION),
        "admin": kits.Party(f"coordinator@{study}.local", "admin", ORGANISATION),
    }
    for name, party in parties.items():
        request = kits.request_kit(folder / name, party, project=study)
        signed = kits.approve_kit(authority, request)
        kit = kits.assemble_kit(folder / name, party, signed, fingerprint=fingerprint)
        if name == "server":
            allow_shutting_out(kit)
    return root_hex(fingerprint)
