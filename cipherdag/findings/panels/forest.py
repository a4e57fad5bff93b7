"""A panel of estimates with their intervals, one line each: a forest plot.

Source: Lewis and Clarke, BMJ 322 (2001) 1479-1480.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from cipherdag.errors import ParameterError
from cipherdag.findings.panels.curves import CLOSE, Tick, round_values
from cipherdag.pages.numerals import cut, shown, text_width

LETTER, TEXT, GAP, PLOT = 12.0, 16.0, 10.0, 330.0
"""Size of a letter, height of a line of words, and width: that of a narrow page."""
INTERVAL = 24.0
"""Height of an interval; its words stand above it."""
TOP, BOTTOM = 4.0, 44.0
LONGEST = 46
ROUND = (1.0, 2.0, 5.0)
FEWEST_ROUND, DECADES = 2, 3
ROOM = 0.05
"""Of the plot, beside the outermost ends."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One line: what it is of, the number, and the ends of its interval."""

    name: str
    value: float
    low: float
    high: float

    @property
    def said(self) -> str:
        """The number with its interval."""
        return f"{shown(self.value)} ({shown(self.low)} to {shown(self.high)})"

    @property
    def words(self) -> tuple[str, ...]:
        """The label above the interval: one line, or two where one is too long."""
        whole = f"{self.name}: {self.said}"
        one_line = text_width(whole) * LETTER <= PLOT
        return (whole,) if one_line else (cut(self.name, LONGEST), self.said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Estimates one below the other on one axis, with a line at no effect.

    Attributes:
        label: What is measured, with its unit.
        estimates: At least one; finite numbers, low <= value <= high.
        ratios: Whether they are ratios: the axis is logarithmic, and 1 is no effect, else 0.

    Raises:
        ParameterError: There is none, or one is not finite, not between its ends, or a ratio of
            0 or below.
    """

    template: ClassVar[str] = "forest"

    title: str
    note: str
    label: str
    estimates: tuple[Estimate, ...]
    ratios: bool = False

    def __post_init__(self) -> None:
        whole = all(
            math.isfinite(estimate.low)
            and math.isfinite(estimate.high)
            and estimate.low <= estimate.value <= estimate.high
            for estimate in self.estimates
        )
        if not self.estimates or not whole or (self.ratios and self._ends[0] <= 0.0):
            raise ParameterError(f"'{self.title}' needs estimates within finite intervals")

    @property
    def left(self) -> float:
        """The x coordinate of the plot's left edge."""
        return GAP

    @property
    def right(self) -> float:
        """The x coordinate of the plot's right edge."""
        return GAP + PLOT

    @property
    def width(self) -> float:
        """Width of the picture."""
        return self.right + GAP

    @property
    def bottom(self) -> float:
        """The y coordinate of the axis."""
        return TOP + self._line * len(self.estimates)

    @property
    def height(self) -> float:
        """Height of the picture."""
        return self.bottom + BOTTOM

    @property
    def _line(self) -> float:
        """Height of an estimate with its words."""
        return INTERVAL + TEXT * max(len(estimate.words) for estimate in self.estimates)

    @property
    def no_effect(self) -> float:
        """The x coordinate of no effect."""
        return self.position(1.0 if self.ratios else 0.0)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Round numbers along the axis."""
        low, high = self._ends
        values: list[float] = []
        if self.ratios:
            first, last = (math.floor(math.log10(end)) for end in (low, high))
            decades = range(first, last + 1)
            steps = ROUND if len(decades) <= DECADES else ROUND[:1]
            round_ones = [step * 10.0**ten for ten in decades for step in steps]
            values = [value for value in round_ones if low <= value <= high]
        if len(values) < FEWEST_ROUND:
            values = round_values(low, high)
        return tuple(Tick(self.position(value), value) for value in values)

    def lines(self) -> list[tuple[float, Estimate]]:
        """Every estimate with the height at which its interval lies."""
        ends = enumerate(self.estimates, start=1)
        return [(TOP + self._line * k - INTERVAL / 2.0, estimate) for k, estimate in ends]

    def said_at(self, height: float, estimate: Estimate) -> list[tuple[float, str]]:
        """The words of an estimate, each line with its height, above the interval's."""
        last = height - INTERVAL / 2.0
        return [(last - TEXT * k, words) for k, words in enumerate(reversed(estimate.words))]

    def position(self, value: float) -> float:
        """The x coordinate of a number on the axis."""
        low, high, scaled = (math.log(x) if self.ratios else x for x in (*self._ends, value))
        inner = PLOT * (1.0 - 2.0 * ROOM)
        return round(self.left + ROOM * PLOT + (scaled - low) / (high - low) * inner, 1)

    @property
    def _ends(self) -> tuple[float, float]:
        """The ends of the axis' data, which include the value of no effect."""
        no_effect = 1.0 if self.ratios else 0.0
        low = min(no_effect, *(estimate.low for estimate in self.estimates))
        high = max(no_effect, *(estimate.high for estimate in self.estimates))
        if high - low > CLOSE * max(abs(low), abs(high)):
            return low, high
        return (0.5, 2.0) if self.ratios else (-1.0, 1.0)
