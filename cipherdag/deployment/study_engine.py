"""The engine that carries a study's messages, opened at the coordinator with a link to every site.

Leaks:
    What the engine leaks: operation names, opaque message bytes and who answered; over files
    numbers, times and lengths alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cipherdag.deployment.shared_folder import files_engine
from cipherdag.program.versions import require_flare
from cipherdag.protocol.engines.engine import Engine
from cipherdag.sites.study.study import Study

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
        SiteNotReadyError: The engine's package is not installed here, or a key is gone.
        SiteUnreachableError: The coordinator's server does not answer.
    """
    if study.engine == "files":
        with files_engine(folder, share, study) as files:
            yield files
        return
    require_flare()
    from cipherdag.protocol.engines.flare_engine import FlareEngine

    names = [site.name for site in study.sites]
    yield FlareEngine(folder, sites=names, start_s=start_s)


def connected_sites(folder: Path, study: Study, share: Path) -> set[str]:
    """The sites that are connected to the server, or answer a greeting, now."""
    if study.engine == "files":
        with files_engine(folder, share, study) as files:
            return files.present(timeout_s=GREETING_S)
    from cipherdag.protocol.engines.flare_engine import connected_sites as at_server

    return set(at_server(folder))
