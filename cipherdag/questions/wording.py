"""How labels say what a round asks."""

from __future__ import annotations

from collections.abc import Sequence

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


def tests_of(counts: Sequence[int]) -> str:
    """So many tests, in words that say how many other variables they condition on.

    Args:
        counts: How many tests condition on 0, 1, 2, ... variables.
    """
    sizes = [size for size, count in enumerate(counts) if count]
    noun = "test" if sum(counts) == 1 else "tests"
    tests = f"{sum(counts):,} {noun} of pairs"
    if not sizes or sizes == [0]:
        return tests
    return f"{tests} given {'' if len(sizes) == 1 else 'up to '}{others(sizes[-1])}"


def others(count: int) -> str:
    """So many other variables: "one other", "two others"."""
    number = _NUMBERS[count] if count < len(_NUMBERS) else str(count)
    return f"{number} other{'s' * (count != 1)}"
