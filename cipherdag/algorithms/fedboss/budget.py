"""What a search may ask for at most.

Leaks:
    Nothing: it counts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Budget:
    """Rounds and values of a site that are left.

    Attributes:
        rounds: How many rounds; None for any number.
        values: How many values; None for any number.
        refused: Whether something was not asked since it was too much.
    """

    rounds: int | None
    values: int | None
    refused: bool = False

    def spend(self, *, rounds: int, values: int) -> bool:
        """Take so much off, if that much is left; else nothing, and remember."""
        enough = (self.rounds is None or rounds <= self.rounds) and (
            self.values is None or values <= self.values
        )
        if not enough:
            self.refused = True
            return False
        self.rounds = None if self.rounds is None else self.rounds - rounds
        self.values = None if self.values is None else self.values - values
        return True
