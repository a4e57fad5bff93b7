"""Which sites a sum may cover, by a plan and the policy of this site."""

from __future__ import annotations

from dataclasses import dataclass
from operator import lt

from cipherdag.errors import CohortError
from cipherdag.protocol.plan import Plan, fewest_survivors
from cipherdag.sites.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class CoveredSites:
    """The rule of one site, whose position in the cohort is ``index``."""

    plan: Plan
    policy: Policy
    index: int

    def names(self, positions: tuple[int, ...]) -> list[str]:
        """The names of the sites at these positions."""
        names = self.plan.names
        return [names[position] for position in positions]

    def groups(self, positions: tuple[int, ...]) -> tuple[list[str], list[tuple[str, ...]]]:
        """Names of the sites, and of groups that lack the same variables, if any lacks some."""
        measured = self.plan.measured
        groups = () if measured.everywhere else measured.groups(positions)
        return self.names(positions), [tuple(self.names(group)) for group in groups]

    def check(self, positions: tuple[int, ...], among: tuple[int, ...]) -> None:
        """Refuse sites that are not enough, or were not ``among`` those there before.

        Raises:
            CohortError: They are not in order, were not there, lack this site, or are too few.
        """
        ascending = all(map(lt, positions, positions[1:]))
        if not ascending or (positions != among and not set(positions) <= set(among)):
            raise CohortError("the sites named are not in order, or were not there before")
        if self.index not in positions:
            raise CohortError("the sites named leave this site out")
        n_sites = len(self.plan.cohort)
        fewest = max(
            self.policy.fewest_survivors(n_sites),
            # others may fear more colluders, and their answers rest on this site too
            fewest_survivors(n_sites, self.plan.colluders),
            min(self.plan.min_survivors, n_sites),
        )
        if len(positions) < fewest:
            raise CohortError(
                f"a sum over {len(positions)} sites is refused; at least {fewest} are needed"
            )
        measured, least = self.plan.measured, self.policy.min_group_size(self.plan)
        if not measured.everywhere and measured.smallest_group(positions) < least:
            raise CohortError(
                f"fewer than {least} of the sites left lack the same variables: differences of "
                "sums would tell of them alone"
            )
