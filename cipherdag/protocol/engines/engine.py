"""The interface of every engine: it pumps bytes and knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Mapping
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
        """Send each site its message.

        Args:
            operation: What the messages are about; sites refuse an operation they do not know.
            messages: One message per site, by the site's name.
            timeout_s: Seconds to wait for the slowest reply.

        Returns:
            One reply or failure for every site in ``messages``.
        """
