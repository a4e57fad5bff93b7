"""Sites in this process: every message still passes through bytes, as on a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cipherdag.protocol.engines.engine import SiteFailure

Handler = Callable[[str, bytes], bytes]


class LocalEngine:
    """Calls the sites' handlers one after the other; ``timeout_s`` has no effect here.

    Args:
        handlers: ``SiteRuntime.handle`` of every site, by the site's name.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = dict(handlers)

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """See `Engine.call`."""
        del timeout_s
        replies: dict[str, bytes | SiteFailure] = {}
        for site, message in messages.items():
            handler = self._handlers.get(site)
            if handler is None:
                replies[site] = SiteFailure("unreachable")
            else:
                replies[site] = handler(operation, message)
        return replies
