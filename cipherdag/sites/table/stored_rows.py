"""A site's codes or numbers as its table is read: in memory, or beyond it in a file without a name.

Such a file is the owner's alone and has no name from the moment it is made, so that nobody else can
open it and nothing is left of it once the process ends, however it ends. Rows are written one block
after the other; the system keeps of them in memory what there is room for.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import OutputError, SiteNotReadyError

IN_MEMORY_BYTES = 2**28  # of an array: a larger one lies in a file
BLOCK_BYTES = 2**24  # of the rows that are turned into columns at a time
CODE_TYPES = (np.int8, np.int16, np.int32)


def code_type(categories: int) -> np.dtype[Any]:
    """The smallest type for the codes of so many categories, and for negative ones."""
    fitting = (each for each in CODE_TYPES if categories <= np.iinfo(each).max)
    return np.dtype(next(fitting, np.int32))


def check_fits(size: int) -> None:
    """Raise SiteNotReadyError for an array of more than half of this machine's memory."""
    memory = _memory_bytes()
    if size > memory // 2:
        raise SiteNotReadyError(
            f"numbers of all rows would take {size / 1e9:.1f} GB of the {memory / 1e9:.1f} GB of "
            "memory",
            remedy="Choose an algorithm that counts rows without loading them "
            "(docs/howto/large-data.md), give the site fewer rows, or use a larger machine.",
        )


def _memory_bytes() -> int:
    """The memory of this machine; if unknown, the addressable size."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**63


class StoredRows:
    """Collects blocks of rows, if need be in a file, and hands all of them over once."""

    def __init__(
        self, width: int, kind: np.dtype[Any], missing: float, folder: Path | None
    ) -> None:
        self._width, self._kind, self._missing, self._folder = width, kind, missing, folder
        self._blocks: list[NDArray[Any]] = []
        self._file: Any = None
        self.rows = 0

    def block(self, rows: int) -> NDArray[Any]:
        """A block without values, to be filled and appended, shape (rows, width)."""
        return np.full((rows, self._width), self._missing, dtype=self._kind)

    def append(self, block: NDArray[Any]) -> None:
        """Add rows, shape (rows, width); raises OutputError where the disk is full."""
        rows = np.ascontiguousarray(block, dtype=self._kind)
        self.rows += len(rows)
        if self._file is None:
            self._blocks.append(rows)
            if self.rows * self._width * self._kind.itemsize > IN_MEMORY_BYTES:
                self._file = _nameless(self._folder)
                self._write(*self._blocks)
                self._blocks = []
        else:
            self._write(rows)

    def by_rows(self) -> NDArray[Any]:
        """Hand over all rows, shape (rows, width), one row after the other in memory."""
        if self._file is None:
            blocks = [*self._take()] or [self.block(0)]
            return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        with self._file as file:
            return mapped(file, (self.rows, self._width), self._kind)

    def by_columns(self) -> NDArray[Any]:
        """Hand over all rows, shape (rows, width), one column after the other in memory."""
        whole = empty_columns(self.rows, self._width, self._kind, self._folder)
        start = 0
        for block in self._take():
            whole[start : start + len(block)] = block
            start += len(block)
        return whole

    def close(self) -> None:
        """Let go of the file in which rows were put aside, if there is one."""
        if self._file is not None:
            self._file.close()

    def _take(self) -> Iterator[NDArray[Any]]:
        """The blocks, which are forgotten one by one."""
        if self._file is None:
            while self._blocks:
                yield self._blocks.pop(0)
            return
        step = max(BLOCK_BYTES // (self._width * self._kind.itemsize), 1)
        with self._file as file:
            file.seek(0)
            while block := file.read(step * self._width * self._kind.itemsize):
                yield np.frombuffer(block, dtype=self._kind).reshape(-1, self._width)

    def _write(self, *blocks: NDArray[Any]) -> None:
        with _disk_errors():
            for block in blocks:
                self._file.write(block.data)


def empty_columns(rows: int, width: int, kind: np.dtype[Any], folder: Path | None) -> NDArray[Any]:
    """An array of shape (rows, width) to be filled, one column after the other in memory."""
    if rows * width * kind.itemsize <= IN_MEMORY_BYTES:
        return np.empty((width, rows), dtype=kind).T
    with _nameless(folder) as file:
        return mapped(file, (width, rows), kind).T


def taken_rows(
    codes: NDArray[np.integer], rows: NDArray[np.int64], folder: Path | None = None
) -> NDArray[np.integer]:
    """Some rows, by position, shape (m, width), one column after the other in memory."""
    taken = empty_columns(len(rows), codes.shape[1], codes.dtype, folder)
    for target, whole in zip(taken.T, codes.T, strict=True):
        np.take(whole, rows, out=target)
    return taken


def mapped(file: Any, shape: tuple[int, int], kind: np.dtype[Any]) -> NDArray[Any]:
    """A file as an array, which stays when the file is closed; OutputError on a full disk."""
    with _disk_errors():
        file.flush()
        size = shape[0] * shape[1] * kind.itemsize
        if hasattr(os, "posix_fallocate"):  # a hole that finds no room later ends the process
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return np.asarray(np.memmap(file, dtype=kind, mode="r+", shape=shape))


def _nameless(folder: Path | None) -> Any:
    with _disk_errors():
        return tempfile.TemporaryFile(dir=folder)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"rows that are more than memory should hold cannot be put aside: {error.strerror}",
            remedy="Make room on the disk of the site's folder; for a federation in one process, "
            "set TMPDIR to a folder with room.",
        ) from error
