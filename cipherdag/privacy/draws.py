"""Everything that a session draws at random: fresh, and where asked written down or repeated.

A site that has to go on after its process was killed makes its keys and masks again: `recorded`
writes down what is drawn while it answers a message, and `repeated` gives back the same when the
message is answered once more. Elsewhere nothing is written down.

Leaks:
    Whoever reads what was drawn computes the keys and masks of the session that it was drawn for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from cipherdag.errors import SessionLostError

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
