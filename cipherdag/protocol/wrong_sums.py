"""What is known where a sum turns out to be wrong: whose it is, and how far all was in order.

Nobody can tell a site that lies from another, nor from a coordinator that does: the sum is all that
anybody sees. What is left is to ask groups of the sites that have nobody in common.

Leaks:
    Nothing: everyone knows which sites were asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from cipherdag.errors import AggregateRangeError, ForgedSumError


@contextmanager
def located(number: int, names: Iterable[str], before: int) -> Iterator[None]:
    """Adds to an error about a sum where it happened.

    Args:
        number: The round that the sum was opened in.
        names: The sites whose answers it covers.
        before: How many sums were opened before it, all of them in order.

    Raises:
        AggregateRangeError: The sum is none that the sites can produce, or contradicts others.
        ForgedSumError: It is not the sum of the sites' answers.
    """
    try:
        yield
    except (AggregateRangeError, ForgedSumError) as error:
        sites = ", ".join(f"'{name}'" for name in names)
        past = f"sums in order before it: {before}"
        message = f"round {number} over {sites}: {error.message}; {past}"
        raise type(error)(message, site=error.site, remedy=error.remedy) from error
