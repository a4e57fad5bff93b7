"""The process that answers for a site, beside its FLARE client or its PySyft Datasite."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from cipherdag.deployment.packages import require_flare
from cipherdag.errors import SiteUnreachableError
from cipherdag.protocol.messages import OPERATIONS
from cipherdag.protocol.site_log import log_into
from cipherdag.sites.private_files import START_LOCK, locked
from cipherdag.sites.session.serving import KeptSite

if TYPE_CHECKING:
    from collections.abc import Callable

    from cipherdag.sites.study.datasite_settings import DatasiteSettings
    from cipherdag.sites.study.site_folder import SiteFolder
    from cipherdag.sites.study.study import Study


IDLE_S = 24 * 3600.0  # how long a run may wait to be resumed


def start(site: SiteFolder, *, stopped: Callable[[float], bool]) -> None:
    """Run the site, and its FLARE client or its PySyft Datasite, until ``stopped`` says so.

    Data, keys and sessions stay in this process; the client's job processes ask it by a socket, so
    that a run goes on when the coordinator starts its job anew.

    Args:
        site: The site's folder, activated.
        stopped: Waits for some seconds and says whether to stop.

    Raises:
        SiteNotReadyError: The site is not activated, its policy is not valid, a key is open to
            others, or it runs already.
        SiteUnreachableError: The client ended by itself, as when the server does not admit it.
    """
    study, datasite = site.study(), site.settings().datasite
    site.policy()
    site.check_keys()
    if datasite is not None:
        with locked(site.path / START_LOCK):
            run_datasite(site, datasite, study, stopped=stopped)
        return
    require_flare()
    from cipherdag.protocol.engines.nvflare_kit import Kit
    from cipherdag.protocol.engines.nvflare_process import KitProcess
    from cipherdag.protocol.engines.site_socket import SiteSocket

    with contextlib.ExitStack() as up:
        up.enter_context(locked(site.path / START_LOCK))
        log_into(site.log_path)
        kept = KeptSite(site.path)
        up.callback(kept.close)
        up.enter_context(SiteSocket(site.path, kept.handle))
        client = up.enter_context(KitProcess(Kit.load(site.kit)))
        while not stopped(0.2):
            kept.forget_idle(IDLE_S)
            if not client.running:
                raise SiteUnreachableError(
                    "the client has ended: the server did not admit it, or is not there",
                    site=site.settings().name,
                    remedy=f"Run `cipherdag site check`; FLARE's own words are in "
                    f"{site.kit / 'console.log'}.",
                )


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
    from cipherdag.sites.session.serving import KeptSite

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
