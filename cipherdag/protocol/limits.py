"""How long what travels may be, whatever carries it."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
"""Of one message to a site, or of one reply; a longer one is refused unread."""

MAX_OPERATION_BYTES: Final = 64
"""Of the name that a message comes under."""
