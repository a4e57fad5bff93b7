"""The protections by name: nothing is offered that is not in this file, and nothing falls back.

A new one is a file that declares what it is, as `MASKING` does, and a line here. The names alone
cost no import of numpy or TenSEAL: what a protection computes with comes in when a side is made.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from cipherdag.errors import ProtectionError
from cipherdag.privacy.protection_kind import ProtectionKind

_FILES = ("protection_kind",)
PROTECTIONS: Final[Mapping[str, ProtectionKind]] = MappingProxyType(
    {
        kind.name: kind
        for file in _FILES
        for kind in vars(import_module(f"cipherdag.privacy.{file}")).values()
        if isinstance(kind, ProtectionKind)
    }
)
DEFAULT: Final = "masking"
PROTECTING: Final = tuple(kind.name for kind in PROTECTIONS.values() if kind.protects)
"""Names of the protections under which an answer by itself says nothing."""


def protection_kind(name: str) -> ProtectionKind:
    """The protection of a name; ProtectionError if there is none."""
    if name not in PROTECTIONS:
        raise ProtectionError(f"there is no protection named {name!r}")
    return PROTECTIONS[name]
