"""The folder that is served to agents: which of its files may be opened, and what they are called.

Every path that an agent names is checked here before anything is read. No link is followed: a path
goes through none, and a folder that holds one is refused. What is neither a file nor a folder, such
as a pipe, is refused too, and files that are larger than what cipherdag writes.

Leaks:
    Names of files below the folder; no path above it.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cipherdag.errors import CipherdagError, OutputError, ParameterError
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES

MAX_PLAN_BYTES: Final = 64 * 1024 * 1024
CLOSED: Final = frozenset(("keys", "transport", "authority", "server"))
"""Folders of private keys in those of sites and coordinators, in which no tool opens a file."""
_NAME_ANOTHER: Final = "Call `list_studies`, which says what lies in the served folder."
_NO_LINK: Final = "A person replaces the link by the file itself, or serves another folder."


@dataclass(frozen=True, slots=True)
class ServedFolder:
    """A folder, without links on its way, below which paths are checked."""

    root: Path

    def folder(self, path: str) -> Path:
        """The folder of this name, of whose content all may be read.

        Raises:
            ParameterError: It lies elsewhere or behind a link, or is no folder.
            OutputError: It holds a link, a pipe or device, or a file that is too large.
        """
        target = self._inside(path)
        if not target.is_dir():
            raise ParameterError(f"{path} is no folder", remedy=_NAME_ANOTHER)
        self.check(target)
        return target

    def is_file(self, path: str) -> bool:
        """True if what has this name is no folder; raises ParameterError as `folder`."""
        return not self._inside(path).is_dir()

    def plan_file(self, path: str) -> Path:
        """The plan's file of this name.

        Raises:
            ParameterError: It lies elsewhere or behind a link, or is no file ending in .json, or is
                larger than a plan.
        """
        target = self._inside(path)
        if target.suffix != ".json" or not stat.S_ISREG(os.lstat(target).st_mode):
            raise ParameterError(
                f"{path} is no file that ends in .json, as a plan does", remedy=_NAME_ANOTHER
            )
        if os.lstat(target).st_size > MAX_PLAN_BYTES:
            raise ParameterError(
                f"{path} is larger than {MAX_PLAN_BYTES} bytes: it is no plan", remedy=_NAME_ANOTHER
            )
        return target

    def check(self, folder: Path) -> None:
        """Look through a folder before it is read; raises OutputError as `folder` does."""
        for at, folders, files in os.walk(folder, onerror=_not_listed):
            for name in (*folders, *files):
                self._check_entry(Path(at, name))
            folders[:] = (name for name in folders if name not in CLOSED)

    def check_file(self, path: Path) -> None:
        """Raise ParameterError unless a setting's file lies below the folder and behind no link."""
        if os.path.lexists(path):
            self._inside(os.path.relpath(path, self.root))
            self._check_entry(path)

    def name(self, path: Path) -> str:
        """What a path below the folder is called; letters that are no text become ``?``."""
        return os.fsencode(path.relative_to(self.root)).decode("utf-8", "replace")

    def shown(self, text: str) -> str:
        """A text without the path of the folder."""
        if self.root == self.root.parent:
            return text
        short = text.replace(f"{self.root}{os.sep}", "").replace(str(self.root), "the folder")
        return short.encode("utf-8", "replace").decode()

    def folders(self, folder: Path) -> list[Path]:
        """The folders in one, by name, without links and hidden ones; or an OSError."""
        with os.scandir(folder) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
        return [folder / name for name in sorted(names)]

    def _inside(self, path: str) -> Path:
        target = Path(os.path.normpath(self.root / path))
        if not target.is_relative_to(self.root):
            raise ParameterError(
                f"{path} is not below the folder that is served", remedy=_NAME_ANOTHER
            )
        within = [each for each in (target, *target.parents) if each.is_relative_to(self.root)]
        try:
            modes = [os.lstat(each).st_mode for each in reversed(within)]
        except OSError as error:
            raise ParameterError(
                f"{path} cannot be read: {error.strerror}", remedy=_NAME_ANOTHER
            ) from error
        except ValueError as error:  # as of a zero byte
            raise ParameterError(f"{path!r} is no path", remedy=_NAME_ANOTHER) from error
        if any(map(stat.S_ISLNK, modes[1:])):
            raise ParameterError(
                f"{path} goes through a link: it is not below the folder that is served",
                remedy=_NO_LINK,
            )
        return target

    def _check_entry(self, path: Path) -> None:
        try:
            status = os.lstat(path)
        except FileNotFoundError:  # a site that runs has just removed it
            return
        if stat.S_ISLNK(status.st_mode):
            raise OutputError(f"{path} is a link, and links are not followed", remedy=_NO_LINK)
        if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            raise OutputError(f"{path} is neither a file nor a folder", remedy="Remove it.")
        if status.st_size > MAX_MESSAGE_BYTES and _is_read(path):
            raise OutputError(
                f"{path} is larger than {MAX_MESSAGE_BYTES} bytes", remedy="Look into it by hand."
            )


def unreadable(error: Exception) -> str:
    """Why something cannot be read, in words."""
    if isinstance(error, CipherdagError):
        return str(error)
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror or error}"
    return f"it cannot be read: its content is damaged ({type(error).__name__})"


def _is_read(path: Path) -> bool:
    records = path.name == "ledger.jsonl" or path.parent.name == "releases"
    return records or path.suffix in (".json", ".toml")


def _not_listed(error: OSError) -> None:
    raise OutputError(
        f"{error.filename} cannot be listed: {error.strerror}",
        remedy="Run the server as a user that may read it.",
    ) from error
