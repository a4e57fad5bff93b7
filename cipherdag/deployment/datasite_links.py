"""PySyft Datasites in a study: the coordinator's key and links, and a site's own Datasite.

The coordinator connects to the sites. It signs its calls with ``keys/datasites.pem``, whose public
half stands in the signed study as ``root``, so no password travels. Where an address is https,
``tls/NAME.pem`` may hold the authority of that site's certificate (the public ones count if it is
absent), and ``tls/coordinator.pem`` with ``tls/coordinator.key`` the coordinator's own.

Leaks:
    A Datasite tells whoever reaches its port the site's name and the version of PySyft.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.engines.syft import SyftEngine
from cipherdag.sites.study.study import Request, Study
from cipherdag.sites.study.study_files import read_file

PORT_S = 2.0


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
    from cipherdag.protocol.engines.syft import SyftEngine, SyftLink

    tls = folder / "tls"
    own = (tls / "coordinator.pem", tls / "coordinator.key")
    links = {}
    for site in study.sites:
        request = read_file(folder / "sites" / f"{site.name}.request", Request)
        authority = tls / f"{site.name}.pem"
        links[site.name] = SyftLink(
            request.datasite,
            authority=authority if authority.exists() else None,
            certificate=own if own[0].exists() else None,
        )
    return SyftEngine(links, key=_key(folder))


def answering_sites(folder: Path, study: Study) -> set[str]:
    """The sites whose Datasites answer now; see `open_datasite_engine`."""
    with contextlib.closing(open_datasite_engine(folder, study)) as engine:
        return engine.present(timeout_s=PORT_S)


def _key(folder: Path) -> Path:
    return folder / "keys" / "datasites.pem"
