"""Checks of a site's PySyft Datasite: its environment and its port."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from cipherdag.deployment.datasite_links import PORT_S
from cipherdag.protocol.engines.syft_wire import SYFT_VERSION
from cipherdag.sites.private_files import START_LOCK, is_locked
from cipherdag.sites.study.finding import Finding
from cipherdag.sites.study.site_folder import SiteFolder

SET_UP = "docs/engines/pysyft.md"
VERSIONS_S = 60.0
# importlib.metadata alone: importing PySyft takes seconds
ASK_VERSIONS = (
    "import importlib.metadata as m; print(*(m.version(p) for p in ('syft', 'cipherdag')))"
)


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
            encoding="utf-8",
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
