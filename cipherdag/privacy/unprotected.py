"""No protection: sums in the clear, for simulation and debugging.

Leaks:
    Everything: the coordinator and whoever carries the messages read every site's answer. In
    a comparison the answer is 0 or 1.
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
    _: int, __: Mapping[int, PairKey], sum_key: MacKey, ___: bytes, ____: int | None = None
) -> SiteAggregation:
    from cipherdag.privacy.sums import SiteAggregation, WordCarrier

    return SiteAggregation(None, sum_key, WordCarrier())


def _coordinator() -> CoordinatorAggregation:
    from cipherdag.privacy.sums import CoordinatorAggregation, WordCarrier

    return CoordinatorAggregation(WordCarrier(), masked=False)


UNPROTECTED = ProtectionKind(
    name="none",
    title="none",
    left="IN THE CLEAR",
    shown="in the clear",
    disclosure="Answers left the sites in the clear: the coordinator saw every site's answers. "
    "This is for debugging on made-up data.",
    site=_site,
    coordinator=_coordinator,
    protects=False,
)
