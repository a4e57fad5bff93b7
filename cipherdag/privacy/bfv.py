"""BFV: secure sums by homomorphic encryption (Brakerski 2012; Fan and Vercauteren 2012), exact.

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

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cipherdag.errors import CohortError
from cipherdag.privacy.protection_kind import ProtectionKind

if TYPE_CHECKING:
    from cipherdag.privacy.homomorphic_mac import MacKey
    from cipherdag.privacy.keys.pairkeys import PairKey
    from cipherdag.privacy.sums import CoordinatorAggregation, SiteAggregation


def _site(
    index: int,
    pair_keys: Mapping[int, PairKey],
    sum_key: MacKey,
    context: bytes,
    n_sites: int | None = None,
) -> SiteAggregation:
    from cipherdag.privacy.bfvcontext import MAX_SITES, BfvContext
    from cipherdag.privacy.roundmasks import RoundMasks
    from cipherdag.privacy.sums import SiteAggregation

    masks = RoundMasks(index, pair_keys, n_sites)
    if len(pair_keys) + 1 > MAX_SITES:
        raise CohortError(f"homomorphic encryption serves at most {MAX_SITES} sites")
    return SiteAggregation(masks, sum_key, BfvContext.from_secret_bytes(context))


def _coordinator() -> CoordinatorAggregation:
    from cipherdag.privacy.bfvcontext import BfvCiphertexts
    from cipherdag.privacy.sums import CoordinatorAggregation

    return CoordinatorAggregation(BfvCiphertexts(), masked=True)


def _shared() -> bytes:
    from cipherdag.privacy.bfvcontext import BfvContext

    return BfvContext.generate().secret_bytes()


BFV = ProtectionKind(
    name="bfv",
    title="encryption (BFV)",
    left="encrypted",
    shown="encrypted (BFV)",
    disclosure="Every answer whose sum is disclosed left encrypted (BFV). The coordinator has no "
    "key; one of the sites opens the sum over all sites, and nothing else can be opened.",
    site=_site,
    coordinator=_coordinator,
    shared=_shared,
)
