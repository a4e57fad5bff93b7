"""A protection: its name, what is said of it, and how both sides of it are made."""

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
