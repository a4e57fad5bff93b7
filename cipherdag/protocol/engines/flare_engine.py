"""NVIDIA FLARE as an engine: a run hands its messages to the coordinator's server.

Leaks:
    The server sees operation names, opaque message bytes and who answered.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cipherdag.errors import CohortError, SiteNotReadyError, SiteUnreachableError
from cipherdag.privacy.wire import encode
from cipherdag.protocol.engines.channel import read
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.flare_relay import (
    CONNECTED,
    DELIVER,
    ConnectedSites,
    Delivered,
    Delivery,
)
from cipherdag.protocol.engines.local_socket import ask

PAUSE_S = 0.1
START_S = 15.0
REASONS = {"unreachable": "unreachable", "timeout": "timeout", "busy": "timeout"}


class FlareEngine:
    """Carries messages to the sites that are connected to the coordinator's server.

    Args:
        folder: The coordinator's folder, whose server is started.
        sites: Every site that may be called.
        start_s: Seconds that the server and the sites may take to come up.

    Raises:
        SiteUnreachableError: The server does not run, or no site has connected in this time.
        CohortError: There is no site, or one appears twice.
    """

    def __init__(self, folder: Path, *, sites: Sequence[str], start_s: float = 15.0) -> None:
        if not sites or len(set(sites)) != len(sites):
            raise CohortError("a FLARE engine needs at least one site, and each only once")
        self._folder = folder
        self._run = secrets.token_hex(8)
        self._sites = frozenset(sites)
        self._wait_for_sites(start_s)

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """See `Engine.call`; sites are called side by side.

        Raises:
            SiteUnreachableError: The server does not run any more.
        """
        if not messages:
            return {}
        with ThreadPoolExecutor(len(messages)) as callers:
            asked = {
                site: callers.submit(
                    self._deliver, Delivery(self._run, site, operation, message, timeout_s)
                )
                for site, message in messages.items()
            }
            return {site: reply.result() for site, reply in asked.items()}

    def _deliver(self, asked: Delivery) -> bytes | SiteFailure:
        if asked.site not in self._sites:
            return SiteFailure("unreachable")
        try:
            done = read(ask(self._folder, DELIVER, encode(asked)), Delivered)
        except SiteNotReadyError:
            connected_sites(self._folder)  # names the cause if it is not the site
            return SiteFailure("unreachable")
        if done.outcome == "reply":
            return done.reply
        return SiteFailure(REASONS.get(done.outcome, "failed"))

    def _wait_for_sites(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not (connected := connected_sites(self._folder, wait_s=seconds)) >= self._sites:
            if time.monotonic() < deadline:
                time.sleep(PAUSE_S)
            elif connected & self._sites:
                return
            else:
                raise SiteUnreachableError(
                    "no site is connected to the coordinator's server",
                    remedy="Have the sites run `cipherdag site check` and `site start`.",
                )


def connected_sites(folder: Path, *, wait_s: float = START_S) -> frozenset[str]:
    """Names of the sites that are connected to the server of a coordinator's folder.

    Args:
        folder: The coordinator's folder.
        wait_s: Seconds that the server may take to start.

    Raises:
        SiteUnreachableError: It does not run.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return frozenset(read(ask(folder, CONNECTED, b""), ConnectedSites).names)
        except SiteNotReadyError as error:
            if time.monotonic() >= deadline:
                raise SiteUnreachableError(
                    "the coordinator's server is not started",
                    remedy=f"Start it with `cipherdag coordinator start --dir {folder}`.",
                ) from error
        time.sleep(PAUSE_S)
