"""Secrets: what holds one is not shown, copied or pickled; and all that is drawn at random.

A site that has to go on after its process was killed makes its keys and masks again: `recorded`
writes down what is drawn while it answers a message, and `repeated` gives back the same when the
message is answered once more. Elsewhere nothing is written down.

Leaks:
    ``repr`` shows the type of the secret; nothing shows its content. Whoever reads what was drawn
    computes the keys and masks of the session that it was drawn for.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NoReturn

from cipherdag.errors import SessionLostError


class Secret:
    """Keeps its secret in slots, so that there is no ``__dict__`` to dump."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, a secret>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds a secret: it is not copied or pickled")


def open_to_others(mode: int) -> bool:
    """Whether a file of this mode gives other users any right; False where POSIX is not."""
    return os.name == "posix" and bool(mode & (stat.S_IRWXG | stat.S_IRWXO))


def leave_no_core() -> None:
    """Let a crash of this process and those it starts leave no memory on a disk, if possible."""
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


Make = Callable[[], bytes]

_source: ContextVar[Callable[[Make], bytes]] = ContextVar("source", default=lambda make: make())


def fresh_bytes(count: int) -> bytes:
    """Uniform bytes from the operating system's random source, or those given to `repeated`."""
    return drawn(lambda: os.urandom(count))


def drawn(make: Make) -> bytes:
    """The bytes that something random makes, such as a key that a library draws by itself."""
    return _source.get()(make)


@contextmanager
def recorded(draws: list[bytes]) -> Iterator[None]:
    """Append to a list what is drawn in this thread, in order."""

    def record(make: Make) -> bytes:
        draws.append(made := make())
        return made

    with _drawn_by(record):
        yield


@contextmanager
def repeated(draws: Sequence[bytes]) -> Iterator[None]:
    """Draw again in this thread what was recorded; raises SessionLostError where that ends."""
    left = iter(draws)

    def repeat(_make: Make) -> bytes:
        again = next(left, None)
        if again is None:
            raise SessionLostError("the record of what was drawn ends early")
        return again

    with _drawn_by(repeat):
        yield


@contextmanager
def _drawn_by(source: Callable[[Make], bytes]) -> Iterator[None]:
    before = _source.set(source)
    try:
        yield
    finally:
        _source.reset(before)
