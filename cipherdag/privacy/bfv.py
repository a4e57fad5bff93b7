"""Secure sums by homomorphic encryption: BFV (Brakerski 2012; Fan and Vercauteren 2012), exact.

Every site encrypts under keys that the sites share and the coordinator never holds; the
coordinator adds ciphertexts; one site opens the sum. Inside the plaintext lie the same masks as
under `masking`, modulo the plaintext prime: without them a coordinator that colludes with a single
key holder could open any site's ciphertext, or a sum arranged to isolate it. With them everything
but the sum over all sites asked decrypts to noise.

Encryption is symmetric, as every site holds the secret key: no public key exists. A number too
large for one plaintext prime travels modulo several, each under a key of its own.

Leaks:
    The coordinator and the opening site learn the sum over the sites asked. As under masking,
    colluders learn the sum of the other sites' answers. CKKS is not offered: it opens to
    approximate sums, and two of them give the secret key away (Li and Micciancio, Eurocrypt 2021).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar

from cipherdag.errors import (
    AggregateRangeError,
    CohortError,
    OpeningRefusedError,
)
from cipherdag.privacy.bfvcontext import (
    DEFAULT_PARAMETERS,
    HIGH_PRECISION_PARAMETERS,
    MAX_SITES,
    BfvContext,
    BfvParameters,
    BfvPublicContext,
)
from cipherdag.privacy.fixedpoint import decode, encode, plane_lengths, words_to_bytes
from cipherdag.privacy.keyed import transcript
from cipherdag.privacy.roundmasks import (
    RoundMasks,
    rebuild_seed,
    require_all,
    strip_masks,
)
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.privacy.aggregation import Aggregate, Declaration, FloatVector
    from cipherdag.privacy.pairkeys import PairKey

__all__ = [
    "DEFAULT_PARAMETERS",
    "HIGH_PRECISION_PARAMETERS",
    "MAX_SITES",
    "BfvContext",
    "BfvCoordinator",
    "BfvParameters",
    "BfvSite",
]


class BfvSite(Secret):
    """A site's side of homomorphic encryption.

    Args:
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every other position.
        context: The keys that the sites of this session share.

    Raises:
        CohortError: There is no other site, or not one key for each, or too many sites.
    """

    __slots__ = ("_context", "_masks", "_opened")

    name: ClassVar[str] = "bfv"

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey], context: BfvContext) -> None:
        self._masks = RoundMasks(index, pair_keys)
        if len(pair_keys) + 1 > MAX_SITES:
            raise CohortError(f"homomorphic encryption serves at most {MAX_SITES} sites")
        self._context = context
        self._opened: tuple[bytes, bytes] | None = None

    @property
    def secret_size(self) -> int:
        """Of the pair keys, the seed of the current round and the shared BFV keys together."""
        return self._masks.secret_size + self._context.secret_size

    @property
    def modulus(self) -> int:
        """The first plaintext prime."""
        return self._context.parameters.moduli[0]

    def share(self, answer: FloatVector, declaration: Declaration) -> bytes:
        """The masked answer, encrypted: about 62 kB for every 4095 values.

        Raises:
            BoundExceededError: A value is not finite or lies outside its bound.
            CohortError: The declaration leaves this site out, names one without a pair key, or
                contradicts itself.
            ReplayError: This site already shared something for this digest.

        Leaks:
            Nothing without the secret key; with it, nothing without the seeds of `unmask`.
        """
        self._masks.check(declaration)
        moduli = self._context.parameters.moduli
        words = encode(answer, declaration, moduli)
        lengths = plane_lengths(declaration, moduli)
        self._masks.mask(words, lengths, moduli, declaration)
        self._opened = None
        return self._context.encrypt(words, lengths)

    def escrow(self, declaration: Declaration) -> tuple[bytes, ...]:
        """Sealed pieces of this round's self mask; see `RoundMasks.escrow`."""
        return self._masks.escrow(declaration)

    def unmask(self, declaration: Declaration) -> bytes:
        """The seed that the sum needs of this site; see `RoundMasks.unmask`."""
        return self._masks.unmask(declaration)

    def recover(self, vanished: int, piece: bytes, declaration: Declaration) -> bytes:
        """A piece of the self mask of a site that left; see `RoundMasks.recover`."""
        return self._masks.recover(vanished, piece, declaration)

    def open(self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The sum, decrypted and stripped of its masks, 8 bytes a residue.

        Asked again for the same ciphertext and seeds it returns the same bytes.

        Args:
            combined: What `BfvCoordinator.combine` yielded.
            seeds: What each site's `unmask` returned, by position.
            declaration: What this site shared last.

        Raises:
            OpeningRefusedError: The question is not the last one, this site did not release its
                own seed for it, the seeds are not those of the sites asked, another ciphertext was
                opened before, or it is not the sum of the sites' shares.
            ShareError: The ciphertext is cut short, of other parameters, or not one at all; or
                seeds are malformed.

        Leaks:
            The aggregate, to the coordinator and to this site.
        """
        self._masks.require_released(declaration)
        if set(seeds) != set(declaration.sites):
            raise OpeningRefusedError("the sum is not over the sites that were asked")
        request = transcript(combined, *(seeds[site] for site in declaration.sites))
        asked = hashlib.sha256(request).digest()
        if self._opened is None:
            self._opened = asked, self._decrypt(combined, seeds, declaration)
        seen, content = self._opened
        if seen != asked:
            raise OpeningRefusedError("another sum was opened for this question before")
        if not content:
            raise OpeningRefusedError("the ciphertext is not the sum of the sites' shares")
        return content

    def _decrypt(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> bytes:
        """The stripped words, or nothing where they are not the sum of the sites' shares."""
        moduli = self._context.parameters.moduli
        lengths = plane_lengths(declaration, moduli)
        words = self._context.decrypt(combined, lengths)
        strip_masks(words, lengths, moduli, seeds=seeds, declaration=declaration)
        content = words_to_bytes(words)
        try:
            decode(content, declaration, moduli)
        except AggregateRangeError:
            return b""
        return content


class BfvCoordinator:
    """The coordinator's side of homomorphic encryption; it holds parameters and no key.

    Args:
        public_context: What `BfvContext.public_bytes` yields.

    Raises:
        ProtectionError: The parameters are not reviewed ones, or the bytes carry a key.
        ShareError: The bytes are not of this kind.
    """

    name: ClassVar[str] = "bfv"

    def __init__(self, public_context: bytes) -> None:
        self._context = BfvPublicContext(public_context)
        self._moduli = self._context.parameters.moduli

    @property
    def opened_by_site(self) -> bool:
        """True: a site decrypts the sum."""
        return True

    def check(self, share: bytes, declaration: Declaration) -> None:
        """Raise ShareError for what is not as many ciphertexts of these parameters as declared."""
        self._context.check(share, plane_lengths(declaration, self._moduli))

    def combine(self, shares: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The encrypted sum of the shares of all sites asked, given by position.

        Raises:
            ShareError: A share is missing, of a site that was not asked, cut short, of other
                parameters, or not one at all.

        Leaks:
            Nothing.
        """
        require_all(shares, declaration)
        return self._context.add(shares, plane_lengths(declaration, self._moduli))

    def rebuild(self, pieces: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The seed of a site that left; see `roundmasks.rebuild_seed`."""
        return rebuild_seed(pieces, declaration)

    def open(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> Aggregate:
        """The aggregate from what a site opened and stripped, of shape (declaration.length,).

        Raises:
            ShareError: The words have another length than declared, or seeds are not those of the
                sites asked.
            AggregateRangeError: The words are not those of a sum.

        Leaks:
            Nothing beyond the words.
        """
        require_all(seeds, declaration)
        return decode(combined, declaration, self._moduli)
