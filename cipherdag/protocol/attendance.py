"""Which sites left a run, and whether those that are left are enough.

Leaks:
    Nothing: everyone sees who answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cipherdag.errors import SiteUnreachableError
from cipherdag.protocol.progress import DropOut

if TYPE_CHECKING:
    from cipherdag.protocol.plan import Plan


class Attendance:
    """The departures of one run.

    Args:
        plan: The plan of the run.

    Attributes:
        dropouts: The sites that left, in order.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.dropouts: list[DropOut] = []

    def leave(self, position: int, number: int, step: str, reason: str, *, in_sum: bool) -> None:
        """Note that a site left in a step of a round; once for each site."""
        name = self._plan.cohort[position].name
        if any(left.site == name for left in self.dropouts):
            return
        self.dropouts.append(
            DropOut(
                site=name,
                round=number,
                step=step,
                reason=reason,
                in_sum=in_sum,
                n_sites=len(self._plan.cohort) - len(self.dropouts) - 1,
                fewest=self._plan.min_survivors,
            )
        )

    def require(self, present: Sequence[int], number: int, step: str) -> None:
        """Refuse to go on with too few sites.

        Raises:
            SiteUnreachableError: They are fewer than a sum has to cover.
        """
        fewest = self._plan.min_survivors
        if len(present) >= fewest:
            return
        gone = [left for left in self.dropouts if left.round == number] or self.dropouts
        names = ", ".join(f"'{left.site}' ({left.reason})" for left in gone)
        raise SiteUnreachableError(
            f"round {number}, {step}: no answer from {names}; {len(present)} of "
            f"{len(self._plan.cohort)} sites remain, {fewest} are needed",
            site=gone[0].site if gone else None,
        )
