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
import socket
import subprocess
from importlib.metadata import version
from typing import TYPE_CHECKING

from cipherdag.enrolment import START_LOCK
from cipherdag.errors import SiteUnreachableError
from cipherdag.privacy.identity import SigningIdentity
from cipherdag.protocol.engines.syft_wire import SYFT_VERSION
from cipherdag.protocol.messages import OPERATIONS
from cipherdag.protocol.site_log import log_into
from cipherdag.sites.finding import Finding
from cipherdag.sites.site_folder import is_locked
from cipherdag.sites.study import Request, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cipherdag.protocol.engines.syft import SyftEngine
    from cipherdag.sites.datasite import DatasiteSettings
    from cipherdag.sites.site_folder import SiteFolder
    from cipherdag.sites.study import Study

SET_UP = "docs/engines/pysyft.md"
VERSIONS_S = 60.0
PORT_S = 2.0
# importlib.metadata alone: importing PySyft takes seconds
ASK_VERSIONS = (
    "import importlib.metadata as m; print(*(m.version(p) for p in ('syft', 'cipherdag')))"
)


def make_datasite_key(folder: Path) -> None:
    """Make the key that signs a coordinator's calls to Datasites, and name it as the study's root.

    Args:
        folder: The coordinator's folder.
    """
    key = SigningIdentity.generate()
    key.save(_key(folder))
    (folder / "tls").mkdir(mode=0o700)
    (folder / "root").write_text(key.public.hex() + "\n", "utf-8")


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


def run_datasite(
    site: SiteFolder,
    datasite: DatasiteSettings,
    study: Study,
    *,
    stopped: Callable[[float], bool],
) -> None:
    """Answer for a site behind its Datasite until ``stopped`` says so.

    Args:
        site: The site's folder, activated.
        datasite: Its Datasite.
        study: Its study.
        stopped: Waits for some seconds and says whether to stop.

    Raises:
        SiteNotReadyError: The Datasite does not start, or another process serves the folder.
        SiteUnreachableError: The Datasite ended by itself.
    """
    from cipherdag.protocol.engines.syft_site import SyftSite
    from cipherdag.sites.onboarding import KeptSite

    log_into(site.log_path)
    name = site.settings().name
    own = KeptSite(site.path)
    said = site.path / "datasite.log"
    served = SyftSite(
        own.handle,
        name=name,
        coordinator=bytes.fromhex(study.root),
        log=said,
        operations=OPERATIONS,
        python=site.path / datasite.python,
        port=datasite.port,
    )
    try:
        with served:
            while not stopped(0.2):
                if not served.running:
                    raise SiteUnreachableError(
                        "the PySyft Datasite has ended",
                        site=name,
                        remedy=f"Read {said}, then run `cipherdag site start` again.",
                    )
    finally:
        own.close()


def datasite_findings(site: SiteFolder) -> Iterator[Finding]:
    """What `site check` says of a Datasite, if the site has one: PySyft's environment, its port."""
    datasite = site.settings().datasite
    if datasite is None:
        return
    yield _environment(site.path / datasite.python)
    yield Finding("address", "ok", f"the coordinator reaches this site at {datasite.url}")
    yield _port(datasite.port, started=is_locked(site.path / START_LOCK))


def _port(port: int, *, started: bool) -> Finding:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PORT_S).close()
    except OSError:
        return Finding("Datasite", "ok", f"not started; port {port} is free")
    if started:
        return Finding("Datasite", "ok", f"started, on port {port}")
    return Finding(
        "Datasite",
        "fail",
        f"not started, and another program listens on port {port}",
        "End it, or choose another port in site.toml and in the proxy.",
    )


def _environment(python: Path) -> Finding:
    wanted = [SYFT_VERSION, version("cipherdag")]
    fix = f"Make PySyft's environment as {SET_UP} says, with the same cipherdag as here."
    try:
        done = subprocess.run(  # noqa: S603 - the site's own interpreter, no shell
            [str(python), "-I", "-c", ASK_VERSIONS],
            capture_output=True,
            text=True,
            check=False,
            timeout=VERSIONS_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Finding("PySyft", "fail", f"{python} cannot be run", fix)
    found = done.stdout.split()
    if done.returncode or found != wanted:
        said = f"syft {found[0]}, cipherdag {found[1]}" if len(found) == len(wanted) else "neither"
        needed = f"syft {wanted[0]} and cipherdag {wanted[1]} are needed"
        return Finding("PySyft", "fail", f"{needed}; {python} has {said}", fix)
    return Finding("PySyft", "ok", f"syft {found[0]}, cipherdag {found[1]}")


def _key(folder: Path) -> Path:
    return folder / "keys" / "datasites.pem"
