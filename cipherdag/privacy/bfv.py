"""Secure sums by homomorphic encryption: BFV (Brakerski 2012; Fan and Vercauteren 2012), exact.

Every site encrypts under keys that the sites share and the coordinator never holds; the
coordinator adds ciphertexts; one site opens the sum. Inside the plaintext lie the same zero-sum
masks as under `masking`, modulo the plaintext prime: without them a coordinator that colludes
with a single key holder could open any site's ciphertext, or a sum arranged to isolate it. With
them everything but the sum of the whole cohort decrypts to noise.

Encryption is symmetric, as every site holds the secret key: no public key exists. A number too
large for one plaintext prime travels modulo several, each under a key of its own.

Leaks:
    The coordinator and the opening site learn the aggregate. As under masking, colluders learn the
    sum of the other sites' answers. CKKS is not offered: it opens to approximate sums, and two of
    them give the secret key away (Li and Micciancio, Eurocrypt 2021).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar

from cipherdag.errors import (
    AggregateRangeError,
    CohortError,
    OpeningRefusedError,
    ReplayError,
    ShareError,
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
from cipherdag.privacy.keystream import add_pair_masks, check_peers
from cipherdag.privacy.pairkeys import KEY_BYTES
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.privacy.aggregation import Aggregate, Declaration, FloatVector
    from cipherdag.privacy.pairkeys import PairKey
    from cipherdag.privacy.residues import Moduli

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

    __slots__ = ("_context", "_current", "_index", "_opened", "_pair_keys", "_shared")

    name: ClassVar[str] = "bfv"

    def __init__(self, index: int, pair_keys: Mapping[int, PairKey], context: BfvContext) -> None:
        check_peers(index, pair_keys)
        if len(pair_keys) + 1 > MAX_SITES:
            raise CohortError(f"homomorphic encryption serves at most {MAX_SITES} sites")
        self._index = index
        self._pair_keys = dict(pair_keys)
        self._context = context
        self._shared: set[bytes] = set()
        self._current: Declaration | None = None
        self._opened: tuple[bytes, bytes] | None = None

    @property
    def secret_size(self) -> int:
        """Of the pair keys and the shared BFV keys together."""
        return KEY_BYTES * len(self._pair_keys) + self._context.secret_size

    @property
    def modulus(self) -> int:
        """The first plaintext prime."""
        return self._context.parameters.moduli[0]

    def share(self, answer: FloatVector, declaration: Declaration) -> bytes:
        """The masked answer, encrypted: about 62 kB for every 4095 values.

        Raises:
            BoundExceededError: A value is not finite or lies outside its bound.
            CohortError: The declaration is for a cohort of another size.
            ReplayError: This site already shared something for this digest.

        Leaks:
            Nothing without the secret key; with it, nothing without all other sites' shares.
        """
        if declaration.cohort_size != len(self._pair_keys) + 1:
            raise CohortError("the declaration is for a cohort of another size")
        if declaration.digest in self._shared:
            raise ReplayError("this question was answered before; a mask is never used twice")
        moduli = self._context.parameters.moduli
        words = encode(answer, declaration, moduli)
        self._shared.add(declaration.digest)
        self._current, self._opened = declaration, None
        lengths = plane_lengths(declaration, moduli)
        add_pair_masks(
            words,
            lengths,
            moduli,
            index=self._index,
            pair_keys=self._pair_keys,
            digest=declaration.digest,
        )
        return self._context.encrypt(words, lengths)

    def open(self, combined: bytes, declaration: Declaration) -> bytes:
        """The decrypted sum of the question that this site shared last, 8 bytes a residue.

        Asked again for the same ciphertext it returns the same bytes.

        Raises:
            OpeningRefusedError: The question is not the last one, another ciphertext was opened
                for it before, or the sum is not one of the whole cohort's shares.
            ShareError: The ciphertext is cut short, of other parameters, or not one at all.

        Leaks:
            The aggregate, to the coordinator and to this site.
        """
        if self._current is None or declaration != self._current:
            raise OpeningRefusedError("this is not the question that the site answered last")
        ciphertext = hashlib.sha256(combined).digest()
        if self._opened is None:
            moduli = self._context.parameters.moduli
            words = self._context.decrypt(combined, plane_lengths(declaration, moduli))
            self._opened = ciphertext, _checked(words_to_bytes(words), declaration, moduli)
        seen, content = self._opened
        if seen != ciphertext:
            raise OpeningRefusedError("another sum was opened for this question before")
        if not content:
            raise OpeningRefusedError("the ciphertext is not the sum of the cohort's shares")
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

    def combine(self, shares: Sequence[bytes], declaration: Declaration) -> bytes:
        """The encrypted sum of the shares of the whole cohort, in any order.

        Raises:
            ShareError: A share is missing, cut short, of other parameters, or not one at all.

        Leaks:
            Nothing.
        """
        if len(shares) != declaration.cohort_size:
            raise ShareError(
                f"{len(shares)} shares came for a cohort of {declaration.cohort_size} sites"
            )
        return self._context.add(shares, plane_lengths(declaration, self._moduli))

    def open(self, combined: bytes, declaration: Declaration) -> Aggregate:
        """The aggregate from what a site opened, of shape (declaration.length,).

        Raises:
            ShareError: The words have another length than declared.
            AggregateRangeError: The words are not those of the whole cohort's sum.

        Leaks:
            Nothing beyond the words.
        """
        return decode(combined, declaration, self._moduli)


def _checked(content: bytes, declaration: Declaration, moduli: Moduli) -> bytes:
    """The opened words, or nothing where they are not a sum of the whole cohort."""
    try:
        decode(content, declaration, moduli)
    except AggregateRangeError:
        return b""
    return content
