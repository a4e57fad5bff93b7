"""Numbers that nobody can foretell who lacks a site's rows, and that are the same at every asking.

What is blurred by them is told no more exactly by asking again, and a run that is gone through a
second time tells the same.

Leaks:
    Nothing: they follow from all rows of the site together, which stay there.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.stratified import JOLT, SPREAD
from cipherdag.sites.table.rows_digest import rows_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.questions.encodings import FloatVector, IndexArray

    FloatMatrix = NDArray[np.float64]


class Blur:
    """Uniform numbers that follow from the rows of a table.

    Args:
        codes: Codes, shape (n, p), negative where missing; None of numbers.
        values: Numbers, shape (n, p), NaN where missing; None of categories.
    """

    def __init__(
        self, codes: NDArray[np.integer] | None, values: NDArray[np.float64] | None
    ) -> None:
        self._digest = rows_digest(b"cipherdag blur", codes, values)

    def __repr__(self) -> str:
        """Without the digest, from which the numbers follow."""
        return "Blur()"

    def moves(self, keys: IndexArray, size: int) -> tuple[FloatVector, FloatMatrix]:
        """What moves the parts of a test, for every row of keys, (K, m).

        Returns:
            What variances are multiplied by, shape (K,), and as many numbers from -1 to 1 for
            `jolted` as asked for, shape (K, size).
        """
        state, size = self._digest + b"each", 2 + size
        drawn = [hashlib.shake_128(state + own.tobytes()).digest(4 * size) for own in keys]
        whole = np.frombuffer(b"".join(drawn), dtype="<u4").reshape(len(keys), size)
        numbers = (whole + 0.5) / 2.0**31 - 1.0
        return (1.0 + SPREAD * numbers[:, :2]).prod(axis=1), numbers[:, 2:]

    def uniform(self, about: bytes, shape: tuple[int, ...]) -> FloatVector:
        """Numbers from -1 to 1 for one purpose, of this shape."""
        entropy = hashlib.sha256(self._digest + about).digest()
        rng = np.random.default_rng(int.from_bytes(entropy, "big"))
        return rng.uniform(-1.0, 1.0, shape)


def jolted(differences: FloatVector, moved: FloatVector) -> FloatVector:
    """Differences to which `JOLT` times others are added, with variances as they were.

    Args:
        differences: Any shape.
        moved: With the covariances of ``differences``, of numbers from -1 to 1, as they are.
    """
    found: FloatVector = (differences + JOLT * moved) / np.sqrt(1.0 + JOLT**2 / 3.0)
    return found
