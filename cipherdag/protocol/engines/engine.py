"""The interface of engines, which carry bytes unread, and the one for sites of this process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SiteFailure:
    """A site that gave no reply; ``reason`` is ``timeout``, ``unreachable`` or ``failed``."""

    reason: str


class Engine(Protocol):
    """Carries one message to each of some sites and brings their replies back."""

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """Send each site, by name, its message: one reply or failure for every site.

        Sites refuse an unknown ``operation``. The slowest has ``timeout_s`` seconds to reply.
        """


Handler = Callable[[str, bytes], bytes]
"""Answers an operation's message at a site, as `SiteRuntime.handle` does."""


class LocalEngine:
    """Calls the sites' handlers, by name, in turn; ``timeout_s`` has no effect here."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = dict(handlers)

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """Sends each site its message; see `Engine.call`."""
        del timeout_s
        handlers, gone = self._handlers, SiteFailure("unreachable")
        return {
            site: handlers[site](operation, message) if site in handlers else gone
            for site, message in messages.items()
        }
