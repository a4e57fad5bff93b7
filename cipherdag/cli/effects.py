"""What a command that is no run says of its failure, where the error's class speaks of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cipherdag.errors import DataError, PrivacyError, SiteNotReadyError, SiteUnreachableError


@contextmanager
def outside_a_run(effect: str) -> Iterator[None]:
    """Has an error that would speak of a run say this effect; also a decorator of commands."""
    try:
        yield
    except (PrivacyError, SiteNotReadyError, SiteUnreachableError, DataError) as error:
        if error.effect == type(error).effect:
            error.effect = effect
        raise
