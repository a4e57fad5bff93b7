"""Masking, the default: secure sums by masks modulo primes below 2**56.

Two sites that share a key share a stream of uniform words for each question; the site that comes
first in the cohort adds it to its answer, the other subtracts it, and every site adds a stream of
its own (Bonawitz et al., CCS 2017, section 4). In the sum over all sites asked the pairwise masks
cancel; what is left is stripped with the seeds that the sites release once each knows that all
others were asked the same. A site may leave after its share came; see `roundmasks`.

Leaks:
    The coordinator learns the sum over the sites asked. It and any sites colluding with it learn
    the sum of the other sites' answers, which the aggregate and the colluders' own answers imply
    anyway; that needs fewer colluders than ``Declaration.threshold``, where seeds are escrowed at
    all, and sites that open a question for one cohort only, which the protocol checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cipherdag.privacy.protection_kind import ProtectionKind

if TYPE_CHECKING:
    from cipherdag.privacy.homomorphic_mac import MacKey
    from cipherdag.privacy.keys.pairkeys import PairKey
    from cipherdag.privacy.sums import CoordinatorAggregation, SiteAggregation


def _site(
    index: int,
    pair_keys: Mapping[int, PairKey],
    sum_key: MacKey,
    _: bytes,
    n_sites: int | None = None,
) -> SiteAggregation:
    from cipherdag.privacy.roundmasks import RoundMasks
    from cipherdag.privacy.sums import SiteAggregation, WordCarrier

    return SiteAggregation(RoundMasks(index, pair_keys, n_sites), sum_key, WordCarrier())


def _coordinator() -> CoordinatorAggregation:
    from cipherdag.privacy.sums import CoordinatorAggregation, WordCarrier

    return CoordinatorAggregation(WordCarrier(), masked=True)


MASKING = ProtectionKind(
    name="masking",
    title="masking",
    left="masked",
    shown="masked",
    disclosure="Every answer whose sum is disclosed left masked. To the coordinator, and to "
    "whoever reads the network, it is noise; the masks cancel only in the sum over all sites.",
    site=_site,
    coordinator=_coordinator,
)
