"""What a protection is, and the three there are: masking, encryption, and none at all.

Masking, the default: sites add streams of words modulo primes below 2**56 to their answers, which
cancel in the sum over all sites asked, or are stripped from it (`roundmasks`).

BFV, exact homomorphic encryption (Brakerski 2012; Fan and Vercauteren 2012): every site encrypts
under secret keys that the sites share and the coordinator never holds, one for each plaintext
prime. The coordinator adds ciphertexts, and one site opens the sum. Inside lie the same masks,
modulo the plaintext primes: without them a coordinator that colludes with one key holder could
open any site's ciphertext. CKKS is not offered: two of its approximate sums give the secret key
away (Li and Micciancio, Eurocrypt 2021).

Leaks:
    The coordinator learns the sum over the sites asked; under BFV also the site that opens it. The
    coordinator and any sites that collude with it learn the sum of the other sites' answers, which
    the aggregate implies anyway. They learn no more if they are fewer than
    ``Declaration.threshold``, where seeds are escrowed, and if sites open a question for one cohort
    only, which the protocol checks. Under `UNPROTECTED` the coordinator and whoever carries the
    messages read every site's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cipherdag.errors import CohortError, ParameterError

if TYPE_CHECKING:
    from cipherdag.privacy.homomorphic_mac import MacKey
    from cipherdag.privacy.keys.pairkeys import PairKey
    from cipherdag.privacy.sums import CoordinatorAggregation, SiteAggregation


@dataclass(frozen=True, kw_only=True, slots=True)
class ProtectionKind:
    """One protection, as messages, policies, results and pages know it."""

    name: str  # what messages, policies and results call it; pages call it ``title``
    title: str
    left: str  # what an answer is when it has left its site, as a sentence says it
    shown: str  # what it is then, as a table says it
    disclosure: str  # its account for the readers of a result, in whole sentences
    # makes a site's side from its position, its pair keys by the other site's position, the MAC key
    # that verifies sums, the ``shared`` content, and the number of sites
    site: Callable[[int, Mapping[int, PairKey], MacKey, bytes, int], SiteAggregation]
    coordinator: Callable[[], CoordinatorAggregation]  # makes the coordinator's side
    shared: Callable[[], bytes] = bytes  # makes the secret content that all sites share, if any
    protects: bool = True  # whether an answer says nothing; if not, a site's policy must allow it

    def __post_init__(self) -> None:
        said = (self.name, self.title, self.left, self.shown, self.disclosure)
        if not all(text.strip() for text in said):
            raise ParameterError("a protection has a name, a title, and says what leaves under it")


def _masking_site(
    index: int, keys: Mapping[int, PairKey], sum_key: MacKey, _: bytes, n_sites: int | None = None
) -> SiteAggregation:
    from cipherdag.privacy.roundmasks import RoundMasks
    from cipherdag.privacy.sums import SiteAggregation, WordCarrier

    return SiteAggregation(RoundMasks(index, keys, n_sites), sum_key, WordCarrier())


def _bfv_site(
    index: int,
    keys: Mapping[int, PairKey],
    sum_key: MacKey,
    shared: bytes,
    n_sites: int | None = None,
) -> SiteAggregation:
    from cipherdag.privacy.bfvcontext import MAX_SITES, BfvContext
    from cipherdag.privacy.roundmasks import RoundMasks
    from cipherdag.privacy.sums import SiteAggregation

    masks = RoundMasks(index, keys, n_sites)
    if len(keys) + 1 > MAX_SITES:
        raise CohortError(f"homomorphic encryption serves at most {MAX_SITES} sites")
    return SiteAggregation(masks, sum_key, BfvContext.from_secret_bytes(shared))


def _plain_site(
    _: int, __: Mapping[int, PairKey], sum_key: MacKey, ___: bytes, ____: int | None = None
) -> SiteAggregation:
    from cipherdag.privacy.sums import SiteAggregation, WordCarrier

    return SiteAggregation(None, sum_key, WordCarrier())


def _of_words(*, masked: bool) -> CoordinatorAggregation:
    from cipherdag.privacy.sums import CoordinatorAggregation, WordCarrier

    return CoordinatorAggregation(WordCarrier(), masked=masked)


def _of_ciphertexts() -> CoordinatorAggregation:
    from cipherdag.privacy.bfvcontext import BfvCiphertexts
    from cipherdag.privacy.sums import CoordinatorAggregation

    return CoordinatorAggregation(BfvCiphertexts(), masked=True)


def _bfv_keys() -> bytes:
    from cipherdag.privacy.bfvcontext import BfvContext

    return BfvContext.generate().secret_bytes()


MASKING = ProtectionKind(
    name="masking",
    title="masking",
    left="masked",
    shown="masked",
    disclosure="Every answer whose sum is disclosed left masked. To the coordinator, and to "
    "whoever reads the network, it is noise; the masks cancel only in the sum over all sites.",
    site=_masking_site,
    coordinator=partial(_of_words, masked=True),
)
BFV = ProtectionKind(
    name="bfv",
    title="encryption (BFV)",
    left="encrypted",
    shown="encrypted (BFV)",
    disclosure="Every answer whose sum is disclosed left encrypted (BFV). The coordinator has no "
    "key; one of the sites opens the sum over all sites, and nothing else can be opened.",
    site=_bfv_site,
    coordinator=_of_ciphertexts,
    shared=_bfv_keys,
)
UNPROTECTED = ProtectionKind(
    name="none",
    title="none",
    left="IN THE CLEAR",
    shown="in the clear",
    disclosure="Answers left the sites in the clear: the coordinator saw every site's answers. "
    "This is for debugging on made-up data.",
    site=_plain_site,
    coordinator=partial(_of_words, masked=False),
    protects=False,
)
