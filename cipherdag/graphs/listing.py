"""The first few of many names, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence


def first_of(names: Sequence[str], most: int = 10, between: str = ", ") -> str:
    """Up to ``most`` names, and how many more there are."""
    rest = len(names) - most
    more = f"{between.strip().strip(',')} and {rest} more" if rest > 0 else ""
    return between.join(names[:most]) + more
