"""One row of `site check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, what was found, and what to do about it.

    ``warn`` stops nothing; ``fail`` means that a run would not go well.
    """

    check: str
    state: State
    finding: str
    fix: str = ""
