"""The protections by name: nothing is offered that is not in this file, and nothing falls back.

Leaks:
    See each protection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.errors import ProtectionError
from cipherdag.privacy.masking import MaskingCoordinator, MaskingSite
from cipherdag.privacy.unprotected import UnprotectedCoordinator, UnprotectedSite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.privacy.aggregation import CoordinatorAggregation, SiteAggregation
    from cipherdag.privacy.pairkeys import PairKey


def site_side(
    protection: str, index: int, pair_keys: Mapping[int, PairKey], context: bytes
) -> SiteAggregation:
    """A site's side of a protection.

    Args:
        protection: ``masking``, ``bfv`` or ``none``.
        index: Position of the site in the cohort.
        pair_keys: Key with the site at every other position.
        context: The BFV keys that the sites share; empty for the others.

    Raises:
        ProtectionError: There is no such protection, or its package is not installed.
    """
    if protection == "masking":
        return MaskingSite(index, pair_keys)
    if protection == "bfv":
        from cipherdag.privacy.bfv import BfvContext, BfvSite

        return BfvSite(index, pair_keys, BfvContext.from_secret_bytes(context))
    if protection == "none":
        return UnprotectedSite()
    raise ProtectionError(f"there is no protection named {protection!r}")


def coordinator_side(protection: str, public_context: bytes) -> CoordinatorAggregation:
    """The coordinator's side of a protection; ``public_context`` holds no key.

    Raises:
        ProtectionError: There is no such protection, or its package is not installed.
    """
    if protection == "masking":
        return MaskingCoordinator()
    if protection == "bfv":
        from cipherdag.privacy.bfv import BfvCoordinator

        return BfvCoordinator(public_context)
    if protection == "none":
        return UnprotectedCoordinator()
    raise ProtectionError(f"there is no protection named {protection!r}")
