"""The engine of a study at its coordinator: what FLARE needs once, and the engine of a run.

Leaks:
    What the engine leaks: operation names, opaque message bytes and who answered.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from cipherdag.datasites import open_datasite_engine
from cipherdag.sites.study import root_hex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cipherdag.coordinating import CoordinatorFolder
    from cipherdag.protocol.engines.engine import Engine
    from cipherdag.sites.study import Study


ORGANISATION = "coordinator"


@contextlib.contextmanager
def study_engine(folder: CoordinatorFolder, study: Study, *, start_s: float) -> Iterator[Engine]:
    """The engine that the study names, with a link to every site.

    Args:
        folder: The coordinator's folder.
        study: Its study.
        start_s: Seconds that a FLARE server and its sites may take to come up.

    Raises:
        SiteNotReadyError: The engine's package is not installed here.
        SiteUnreachableError: The FLARE server does not answer.
    """
    if study.engine == "syft":
        with contextlib.closing(open_datasite_engine(folder.path, study)) as datasites:
            yield datasites
        return
    kit = folder.kit("admin")
    from cipherdag.protocol.engines.nvflare import FlareEngine
    from cipherdag.protocol.engines.nvflare_admin import end_orphans

    end_orphans(kit)
    names = [site.name for site in study.sites]
    with FlareEngine(kit, sites=names, start_s=start_s) as engine:
        yield engine


def make_flare_kits(folder: Path, *, study: str, host: str, port: int) -> None:
    """Make FLARE's authority, whose fingerprint is the study's root, and the coordinator's kits.

    Args:
        folder: The coordinator's folder.
        study: Name of the study.
        host: Host name at which the sites reach the server.
        port: Its one port.

    Raises:
        SiteNotReadyError: FLARE failed.
    """
    from cipherdag.protocol.engines import nvflare_kit as kits
    from cipherdag.protocol.engines.nvflare_admin import allow_shutting_out

    authority = folder / "authority"
    fingerprint = kits.open_authority(authority, project=study, host=host, port=port)
    (folder / "root").write_text(root_hex(fingerprint) + "\n", "utf-8")
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
