"""The engine that carries a study's messages, opened at the coordinator with a link to every site.

With PySyft the coordinator connects to the sites' Datasites. It signs its calls with
``keys/datasites.pem``, whose public half stands in the signed study as ``root``, so no password
travels. Where an address is https, ``tls/NAME.pem`` may hold the authority of that site's
certificate (the public ones count if it is absent), and ``tls/coordinator.pem`` with
``tls/coordinator.key`` the coordinator's certificate.

Leaks:
    What the engine leaks: operation names, opaque message bytes and who answered. A Datasite tells
    whoever reaches its port the site's name and the version of PySyft.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cipherdag.deployment.packages import require_flare
from cipherdag.deployment.shared_folder import files_engine
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.engines.engine import Engine
from cipherdag.protocol.engines.syft import SyftEngine, SyftLink
from cipherdag.sites.study.study import Request, Study
from cipherdag.sites.study.study_files import read_file

PORT_S = 2.0
GREETING_S = 10.0


@contextlib.contextmanager
def study_engine(folder: Path, study: Study, share: Path, *, start_s: float) -> Iterator[Engine]:
    """The engine that the study names, with a link to every site.

    Args:
        folder: The coordinator's folder.
        study: Its study.
        share: Over files, the shared folder.
        start_s: Seconds that the server and its sites may take to come up.

    Raises:
        SiteNotReadyError: The engine's package is not installed here.
        SiteUnreachableError: The coordinator's server does not answer.
    """
    if study.engine == "syft":
        with contextlib.closing(open_datasite_engine(folder, study)) as datasites:
            yield datasites
        return
    if study.engine == "files":
        with files_engine(folder, share, study) as files:
            yield files
        return
    require_flare()
    from cipherdag.protocol.engines.flare_engine import FlareEngine

    names = [site.name for site in study.sites]
    yield FlareEngine(folder, sites=names, start_s=start_s)


def make_datasite_key(folder: Path) -> str:
    """Make the key that signs a coordinator's calls to Datasites.

    Args:
        folder: The coordinator's folder.

    Returns:
        The study's root: the key's public half, hexadecimal.
    """
    key = SigningIdentity.generate()
    key.save(_key(folder))
    (folder / "tls").mkdir(mode=0o700)
    return key.public.hex()


def open_datasite_engine(folder: Path, study: Study) -> SyftEngine:
    """The engine that reaches the Datasites of all sites of a study.

    Args:
        folder: The coordinator's folder, with the sites' requests.
        study: The study.

    Raises:
        SiteNotReadyError: PySyft 0.9.5 is not installed here.
        MalformedMessageError: A site's request is gone or altered.
        PolicyRefusedError: Others can read the coordinator's key.
    """
    tls = folder / "tls"
    client_files = (tls / "coordinator.pem", tls / "coordinator.key")
    links = {}
    for site in study.sites:
        request = read_file(folder / "sites" / f"{site.name}.request", Request)
        authority = tls / f"{site.name}.pem"
        links[site.name] = SyftLink(
            request.datasite,
            authority=authority if authority.exists() else None,
            certificate=client_files if client_files[0].exists() else None,
        )
    return SyftEngine(links, key=_key(folder))


def connected_sites(folder: Path, study: Study, share: Path) -> set[str]:
    """The sites that are connected to the server, or answer a greeting, now."""
    if study.engine == "files":
        with files_engine(folder, share, study) as files:
            return files.present(timeout_s=GREETING_S)
    if study.engine == "syft":
        with contextlib.closing(open_datasite_engine(folder, study)) as engine:
            return engine.present(timeout_s=PORT_S)
    from cipherdag.protocol.engines.flare_engine import connected_sites as at_server

    return set(at_server(folder))


def _key(folder: Path) -> Path:
    return folder / "keys" / "datasites.pem"
