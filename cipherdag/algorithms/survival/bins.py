"""Where bins of time end, from what the marks of a column tell about where its numbers lie.

Arithmetic of decimals, which every machine does alike.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

STEPS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))
SPREADS = 2.0
"""How many typical spreads beyond about the mean the last bin ends."""


def round_edges(place: float, unit: float, bins: int) -> tuple[float, ...]:
    """Round numbers equally far apart, from above 0 to two spreads beyond the mean or a little on.

    Args:
        place: About the mean of the times, of all sites.
        unit: About their standard deviation, a power of two.
        bins: Most of them.
    """
    last = Decimal(max(place, unit / SPREADS) + SPREADS * unit)
    raw = last / bins
    power = Decimal(10) ** raw.adjusted()
    width = next(power * step for step in STEPS if power * step >= raw)
    count = min(int((last / width).to_integral_value(ROUND_CEILING)), bins)
    return tuple(float(width * number) for number in range(1, count + 1))
