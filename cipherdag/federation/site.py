"""One site of a federation in this process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cipherdag.errors import ParameterError
from cipherdag.sites.policy.policy import Policy

if TYPE_CHECKING:
    from cipherdag.sites.table.site_table import SiteTable

SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Site:
    """One site of a federation in this process: its name, its aligned table, its own policy."""

    name: str
    table: SiteTable = field(repr=False)
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        if not SITE_NAME.fullmatch(self.name) or self.name == "coordinator":
            raise ParameterError(
                f"{self.name!r} cannot name a site",
                remedy="Use 1 to 64 letters, digits, '.', '_' or '-', and not 'coordinator'.",
            )
