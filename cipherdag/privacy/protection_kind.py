"""A protection: its name, what is said of it, and how both sides of it are made; and none at all.

Under `UNPROTECTED`, for simulation and debugging, sums are in the clear.

Leaks:
    Under `UNPROTECTED` everything: the coordinator and whoever carries the messages read every
    site's answer. In a comparison the answer is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cipherdag.errors import ParameterError

if TYPE_CHECKING:
    from cipherdag.privacy.homomorphic_mac import MacKey
    from cipherdag.privacy.keys.pairkeys import PairKey
    from cipherdag.privacy.sums import CoordinatorAggregation, SiteAggregation


@dataclass(frozen=True, kw_only=True, slots=True)
class ProtectionKind:
    """One protection, as messages, policies, results and pages know it.

    Attributes:
        name: What messages, policies and results call it.
        title: What pages call it.
        left: What an answer is when it has left its site, as a sentence says it.
        shown: What it is then, as a table says it.
        disclosure: Its account for the readers of a result, in whole sentences.
        site: Makes a site's side from its position, its pair keys by the other site's position,
            the MAC key that verifies sums, the ``shared`` content, and the number of sites.
        coordinator: Makes the coordinator's side.
        shared: Makes the secret content that all sites share, such as keys; empty by default.
        protects: Whether an answer by itself says nothing; if not, a site's policy must allow it.

    Raises:
        ParameterError: One of the texts is empty.
    """

    name: str
    title: str
    left: str
    shown: str
    disclosure: str
    site: Callable[[int, Mapping[int, PairKey], MacKey, bytes, int], SiteAggregation]
    coordinator: Callable[[], CoordinatorAggregation]
    shared: Callable[[], bytes] = bytes
    protects: bool = True

    def __post_init__(self) -> None:
        said = (self.name, self.title, self.left, self.shown, self.disclosure)
        if not all(text.strip() for text in said):
            raise ParameterError("a protection has a name, a title, and says what leaves under it")


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
