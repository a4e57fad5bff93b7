"""The protections by name: nothing is offered that is not in this file, and nothing falls back.

A new one is a file that says what it is, as `masking` does, and a line here. The names alone cost
no import of numpy or TenSEAL: what a protection computes with comes in when a side of it is made.

Leaks:
    See each protection.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cipherdag.errors import ProtectionError
from cipherdag.privacy.bfv import BFV
from cipherdag.privacy.masking import MASKING
from cipherdag.privacy.protection_kind import ProtectionKind
from cipherdag.privacy.unprotected import UNPROTECTED

_KINDS = (
    MASKING,
    BFV,
    UNPROTECTED,
)
PROTECTIONS: Final[Mapping[str, ProtectionKind]] = MappingProxyType({k.name: k for k in _KINDS})
DEFAULT: Final = MASKING.name
PROTECTING: Final = tuple(kind.name for kind in _KINDS if kind.protects)
"""The names of those under which an answer by itself says nothing."""


def protection_kind(name: str) -> ProtectionKind:
    """The protection of a name.

    Raises:
        ProtectionError: There is none.
    """
    if name not in PROTECTIONS:
        raise ProtectionError(f"there is no protection named {name!r}")
    return PROTECTIONS[name]
