"""The engine of a run, opened at the coordinator with a link to every site of the study.

Leaks:
    What the engine leaks: operation names, opaque message bytes and who answered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.datasite_links import open_datasite_engine
from cipherdag.deployment.packages import require_flare
from cipherdag.protocol.engines.engine import Engine
from cipherdag.sites.study.study import Study


@contextlib.contextmanager
def study_engine(folder: CoordinatorFolder, study: Study, *, start_s: float) -> Iterator[Engine]:
    """The engine that the study names, with a link to every site.

    Args:
        folder: The coordinator's folder.
        study: Its study.
        start_s: Seconds that the server and its sites may take to come up.

    Raises:
        SiteNotReadyError: The engine's package is not installed here.
        SiteUnreachableError: The coordinator's server does not answer.
    """
    if study.engine == "syft":
        with contextlib.closing(open_datasite_engine(folder.path, study)) as datasites:
            yield datasites
        return
    require_flare()
    from cipherdag.protocol.engines.flare_engine import FlareEngine

    names = [site.name for site in study.sites]
    yield FlareEngine(folder.path, sites=names, start_s=start_s)
