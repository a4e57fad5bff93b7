"""Who has which role in a round: an order of the sites that follows from public randomness.

Leaks:
    Nothing: whoever has the public randomness knows all roles of a run in advance.
"""

from __future__ import annotations

from collections.abc import Sequence

from cipherdag.errors import ParameterError
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, expand, place


def in_turn(beacon: bytes, step: int, present: Sequence[int], roles: int) -> tuple[int, ...]:
    """Positions of the sites that take the roles of a step, the first role's first.

    Each site has a number that follows from the beacon, the step and its position; those with the
    smallest have the roles. Where one of them leaves, those after it move up, and where another
    site leaves nothing changes: by leaving out sites, nobody gets more than the next ones in turn.

    Args:
        beacon: 32 bytes that no party could choose, the same for everyone.
        step: Which question of the plan.
        present: Positions of the sites that are still there.
        roles: How many have one.

    Raises:
        ParameterError: There are fewer sites than roles, or no such beacon or step.
    """
    if len(beacon) != KEY_BYTES or not 0 <= step < 1 << 32:
        raise ParameterError("roles follow from a beacon of 32 bytes and a step of 32 bits")
    if len(set(present)) != len(present) or len(present) < roles:
        raise ParameterError("every role needs a site of its own")
    number = step.to_bytes(4, "big")
    ordered = sorted(present, key=lambda site: expand(beacon, b"role", number, place(site)))
    return tuple(ordered[:roles])
