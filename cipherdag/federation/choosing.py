"""The algorithm that a caller of ``run`` means."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.registry import ALGORITHMS, make_algorithm
from cipherdag.errors import ParameterError


def chosen_algorithm(given: Algorithm[Any, Any] | str) -> Algorithm[Any, Any]:
    """The algorithm itself, or that of a name with the parameters that it has by default.

    Raises:
        ParameterError: There is no algorithm of this name, or something else stands for one.
    """
    if isinstance(given, type):
        raise ParameterError(
            f"{given.__name__} is a class, not an algorithm with its parameters",
            remedy=f"Write {given.__name__}(), with parameters in the brackets if need be.",
        )
    if isinstance(given, Algorithm):
        return given
    if not isinstance(given, str):
        raise ParameterError(f"an algorithm or its name is needed, not {given!r:.80}")
    name = given.strip().lower()
    try:
        return make_algorithm(name, {})
    except ParameterError as error:
        close = get_close_matches(name, ALGORITHMS, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(ALGORITHMS)}."
        raise ParameterError(error.message, remedy=hint) from None
