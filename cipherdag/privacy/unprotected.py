"""Sums in the clear, for simulation and debugging; a site's policy must allow it by name.

Leaks:
    Everything: the coordinator and whoever carries the messages read every site's answer, except
    that a comparison still only shows whether a site exceeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

from cipherdag.errors import OpeningRefusedError, ShareError
from cipherdag.privacy.fixedpoint import decode, encode, words_to_bytes
from cipherdag.privacy.masking import add_shares, read_share
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.roundmasks import require_all

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def escrow(self, declaration: Declaration) -> tuple[bytes, ...]:
        """No piece: there is no mask."""
        del declaration
        return ()

    def unmask(self, declaration: Declaration) -> bytes:
        """No seed: there is no mask."""
        del declaration
        return b""

    def recover(self, vanished: int, piece: bytes, declaration: Declaration) -> bytes:
        """No piece: there is no mask."""
        del vanished, piece, declaration
        return b""

    def open(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> NoReturn:
        """Always refused: the coordinator reads the sum itself."""
        del combined, seeds, declaration
        raise OpeningRefusedError("without protection there is nothing that a site opens")


class UnprotectedCoordinator:
    """The coordinator's side of no protection."""

    name: ClassVar[str] = "none"

    @property
    def opened_by_site(self) -> bool:
        """False: nothing is closed."""
        return False

    def check(self, share: bytes, declaration: Declaration) -> None:
        """Raise ShareError for a share of wrong length, or with a word that is not reduced."""
        read_share(share, declaration)

    def combine(self, shares: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The sum of the answers of all sites asked; raises ShareError as masking does."""
        return words_to_bytes(add_shares(shares, declaration))

    def rebuild(self, pieces: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """No seed: a site that left after its share arrived is in the sum all the same."""
        del pieces, declaration
        return b""

    def open(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> Aggregate:
        """The aggregate, of shape (declaration.length,); errors as under masking."""
        require_all(seeds, declaration)
        if any(seeds.values()):
            raise ShareError("seeds came, but nothing is masked")
        return decode(combined, declaration, WORD_MODULI)
