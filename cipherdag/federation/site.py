"""One site of a federation in this process."""

from __future__ import annotations

from dataclasses import dataclass, field

from cipherdag.sites.compute.noise import Keyed, unkeyed
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.study.study_names import check_site_name
from cipherdag.sites.table.site_table import SiteTable


@dataclass(frozen=True, slots=True)
class Site:
    """One site of a federation in this process: its name, its aligned table, its own policy.

    By default no key enters what it draws at random, noise included. So a simulation can be
    repeated, and whoever guesses all rows can compute it. With ``keyed`` it answers as a real site.

    Raises:
        ParameterError: No real site may have this name.
    """

    name: str
    table: SiteTable = field(repr=False)
    policy: Policy = field(default_factory=Policy)
    keyed: Keyed = field(default=unkeyed, repr=False)

    def __post_init__(self) -> None:
        check_site_name(self.name)
