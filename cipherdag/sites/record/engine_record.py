"""What became of the process that carries a site's messages: when it started, what it refused.

Leaks:
    Nothing: the file stays in the site's folder, for ``site status`` and ``site check``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cipherdag.errors import SiteNotReadyError
from cipherdag.sites.private_files import write_private

MOST_SENTENCE = 120


class EngineRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``engine.json``.

    Attributes:
        started: When the process started last, in UTC; empty before.
        user: Number of the user that it runs as.
        other_user: Whether that is another one than the site's own process has.
        kernel: What the kernel enforces: ``landlock``, ``seccomp``.
        opened: Files of the site that it could open all the same.
        news: The last thing that it said of its connection.
        refused: How often somebody asked for what this site does not do.
        last_refused: When that was last, and what.
    """

    started: str = ""
    user: int = -1
    other_user: bool = False
    kernel: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    news: str = ""
    refused: int = 0
    last_refused: str = ""

    @classmethod
    def load(cls, path: Path) -> EngineRecord:
        """What stands in a file; nothing happened where there is none.

        Raises:
            SiteNotReadyError: It cannot be read.
        """
        if not path.exists():
            return cls()
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(
                f"{path} cannot be read", remedy="Delete it; it is written anew at the next start."
            ) from error

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_private(path, msgspec.json.encode(self).decode("utf-8"))

    def noticed(self, what: str, times: int, *, refused: bool) -> EngineRecord:
        """The record after a notice of the process, whose words are not trusted."""
        said = sentence(what)
        if not refused:
            return msgspec.structs.replace(self, news=f"{said}, {_now()}")
        return msgspec.structs.replace(
            self, refused=self.refused + max(times, 1), last_refused=f"{said}, {_now()}"
        )

    def restarted(
        self, *, user: int, other_user: bool, kernel: tuple[str, ...], opened: tuple[str, ...]
    ) -> EngineRecord:
        """The record after a start; what was refused before stays counted."""
        return msgspec.structs.replace(
            self,
            started=_now(),
            user=user,
            other_user=other_user,
            kernel=kernel,
            opened=opened,
            news="",
        )

    @property
    def separation(self) -> str:
        """What keeps the process from the site's files, in words; empty if nothing does."""
        if self.opened:
            return ""
        means = [f"user {self.user}"] if self.other_user else []
        kernel = [f"the kernel ({' and '.join(self.kernel)})"] if self.kernel else []
        return " and ".join([*means, *kernel])


def sentence(what: str) -> str:
    """What a process said that is not trusted, in one line of limited length."""
    return "".join(filter(str.isprintable, what))[:MOST_SENTENCE]


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
