"""Panels with axes: curves over rounds, and estimates with their intervals in a forest plot.

Source: Lewis and Clarke, BMJ 322 (2001) 1479-1480 (forest plots).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cipherdag.errors import ParameterError
from cipherdag.pages.numerals import cut, shown, text_width

WIDTH, HEIGHT = 720.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 14.0, 44.0
MOST_SERIES = 6  # colours in page.css
TICKS = 5
CLOSE, TINY = 1e-9, 1e-290


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: its name and its points, x ascending; ends of an interval at some of them.

    ``band`` has x, the lower and the upper end, x ascending.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick of an axis: its position in the picture, and its number."""

    position: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """One or several curves over one pair of axes.

    Raises:
        ParameterError: No point, too many curves, or a number is not finite.
    """

    template: ClassVar[str] = "curves"
    width: ClassVar[float] = WIDTH
    height: ClassVar[float] = HEIGHT
    frame: ClassVar[tuple[float, float, float, float]] = (LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)

    title: str
    note: str
    x_label: str  # what is counted along the horizontal axis, such as "round"
    y_label: str  # what is measured, with its unit
    # at most six curves, together with at least one point; all numbers finite
    series: tuple[Series, ...]
    steps: bool = False  # whether a curve stays where it is up to the next point

    def __post_init__(self) -> None:
        points = self._points
        if not points or len(self.series) > MOST_SERIES:
            raise ParameterError(f"'{self.title}' needs a point and at most {MOST_SERIES} curves")
        bands = [ends for series in self.series for ends in series.band]
        if not all(math.isfinite(value) for point in (*points, *bands) for value in point):
            raise ParameterError(f"'{self.title}' has a number that is not finite")

    @property
    def x_ticks(self) -> tuple[Tick, ...]:
        """Numbers along the horizontal axis."""
        whole = all(x.is_integer() for x, _ in self._points)
        return tuple(
            Tick(self._x(value), value) for value in round_values(*self._x_range, whole=whole)
        )

    @property
    def y_ticks(self) -> tuple[Tick, ...]:
        """Numbers along the vertical axis."""
        return tuple(Tick(self._y(value), value) for value in round_values(*self._y_range))

    def course(self, series: Series) -> str:
        """The curve as an SVG path."""
        return "M" + self._line(series.points)

    def area(self, series: Series) -> str:
        """The interval about the curve as an SVG path; empty without one."""
        if not series.band:
            return ""
        low = self._line([(x, y) for x, y, _ in series.band])
        high = self._line([(x, y) for x, _, y in series.band])
        return f"M{low}L{'L'.join(reversed(high.split('L')))}Z"

    def _line(self, points: Sequence[tuple[float, float]]) -> str:
        before = [*points[:1], *points[:-1]] if self.steps else points
        coordinates = [
            f"{self._x(x):.1f},{self._y(y):.1f}"
            for point, previous in zip(points, before, strict=True)
            for x, y in ([(point[0], previous[1]), point] if self.steps else [point])
        ]
        return "L".join(coordinates)

    def dots(self, series: Series) -> list[tuple[float, float, float, float]]:
        """Places in the picture and numbers of the points: x, y, first and second number."""
        return [(round(self._x(x), 1), round(self._y(y), 1), x, y) for x, y in series.points]

    @property
    def _points(self) -> list[tuple[float, float]]:
        return [point for series in self.series for point in series.points]

    @property
    def _x_range(self) -> tuple[float, float]:
        return _range([x for x, _ in self._points])

    @property
    def _y_range(self) -> tuple[float, float]:
        ends = [y for series in self.series for interval in series.band for y in interval[1:]]
        low, high = _range([*(y for _, y in self._points), *ends])
        # a curve that starts near zero is read better from zero
        return (0.0, high) if 0 < low <= high / 2 else (low, high)

    def _x(self, value: float) -> float:
        low, high = self._x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def _y(self, value: float) -> float:
        low, high = self._y_range
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _range(values: list[float]) -> tuple[float, float]:
    """Least and largest, or some room around them where they are as good as equal."""
    low, high = min(values), max(values)
    largest = max(abs(low), abs(high))
    if high - low > CLOSE * largest and high - low > TINY:
        return low, high
    room = largest / 2 if largest > TINY else 0.5
    return low - room, high + room


def round_values(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers between two others, about five of them; whole numbers if asked for."""
    raw = max(1.0, (high - low) / TICKS) if whole else (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    factors = (1.0, 2.0, 5.0, 10.0) if whole else (1.0, 2.0, 2.5, 5.0, 10.0)
    step = next(size * factor for factor in factors if size * factor >= raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


LETTER, TEXT, GAP, PLOT = 12.0, 16.0, 10.0, 330.0
"""Size of a letter, height of a line of words, and width: that of a narrow page."""
INTERVAL = 24.0
"""Height of an interval; its words stand above it."""
HEAD, FOOT = 4.0, 44.0
LONGEST = 46
ROUND = (1.0, 2.0, 5.0)
FEWEST_ROUND, DECADES = 2, 3
ROOM = 0.05  # of the plot, beside the outermost ends


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

    Raises:
        ParameterError: There is none, or one is not finite, not between its ends, or a ratio of
            0 or below.
    """

    template: ClassVar[str] = "forest"
    left: ClassVar[float] = GAP
    right: ClassVar[float] = GAP + PLOT
    width: ClassVar[float] = GAP + PLOT + GAP

    title: str
    note: str
    label: str  # what is measured, with its unit
    estimates: tuple[Estimate, ...]  # at least one; finite numbers, low <= value <= high
    # whether they are ratios: the axis is logarithmic, and 1 is no effect, else 0
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
    def bottom(self) -> float:
        """The y coordinate of the axis."""
        return HEAD + self._line * len(self.estimates)

    @property
    def height(self) -> float:
        """Height of the picture."""
        return self.bottom + FOOT

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
        return [(HEAD + self._line * k - INTERVAL / 2.0, estimate) for k, estimate in ends]

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
