"""Sums in the clear, for simulation and debugging; a site's policy must allow it by name.

Leaks:
    Everything: the coordinator and whoever carries the messages read every site's answer, except
    that a comparison still only shows whether a site exceeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

from cipherdag.errors import OpeningRefusedError
from cipherdag.privacy.fixedpoint import decode, encode, words_to_bytes
from cipherdag.privacy.masking import add_shares
from cipherdag.privacy.residues import WORD_MODULI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.privacy.aggregation import Aggregate, Declaration, FloatVector


class UnprotectedSite:
    """A site's side of no protection; it holds no key."""

    name: ClassVar[str] = "none"

    @property
    def modulus(self) -> int:
        """2**64."""
        return WORD_MODULI[0]

    def share(self, answer: FloatVector, declaration: Declaration) -> bytes:
        """The encoded answer in the clear, 8 bytes a word.

        Raises:
            BoundExceededError: A value is not finite or lies outside its bound.

        Leaks:
            The answer.
        """
        return words_to_bytes(encode(answer, declaration, WORD_MODULI))

    def open(self, combined: bytes, declaration: Declaration) -> NoReturn:  # noqa: ARG002
        """Always refused: the coordinator reads the sum itself."""
        raise OpeningRefusedError("without protection there is nothing that a site opens")


class UnprotectedCoordinator:
    """The coordinator's side of no protection."""

    name: ClassVar[str] = "none"

    @property
    def opened_by_site(self) -> bool:
        """False: nothing is closed."""
        return False

    def combine(self, shares: Sequence[bytes], declaration: Declaration) -> bytes:
        """The sum of the answers of the whole cohort; raises ShareError as masking does."""
        return words_to_bytes(add_shares(shares, declaration))

    def open(self, combined: bytes, declaration: Declaration) -> Aggregate:
        """The aggregate, of shape (declaration.length,); errors as under masking."""
        return decode(combined, declaration, WORD_MODULI)
