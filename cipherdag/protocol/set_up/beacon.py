"""Randomness that no site chose: the sites commit to numbers before any of them is told.

Whoever tells last may see what comes of it, and leave: then nothing is set up, at any site.

Leaks:
    Nothing: the numbers are for everybody, and for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cipherdag.errors import KeyAgreementError
from cipherdag.protocol.wire import digest

if TYPE_CHECKING:
    from cipherdag.protocol.plan import Plan

CHANCE_BYTES: Final = 32


def new_chance() -> bytes:
    """A site's random number for the beacon."""
    return os.urandom(CHANCE_BYTES)


def commitment(plan: Plan, site: int, chance: bytes) -> bytes:
    """What a site offers before any site tells its number, 32 bytes."""
    return digest(b"commitment", plan.digest, site.to_bytes(4, "big"), chance)


def beacon_of(plan: Plan, commitments: Sequence[bytes], chances: Sequence[bytes]) -> bytes:
    """Randomness that no site chose: it is fixed once all have committed, and then told.

    Raises:
        KeyAgreementError: A site tells another number than it committed to.
    """
    for site, (own, chance) in enumerate(zip(commitments, chances, strict=True)):
        if len(chance) != CHANCE_BYTES or commitment(plan, site, chance) != own:
            raise KeyAgreementError(
                "it told another random number than it committed to", site=plan.cohort[site].name
            )
    return digest(b"beacon", *chances)
