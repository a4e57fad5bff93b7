"""Versions of installed packages: what sites compare, and what a result names."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from cipherdag.errors import SiteNotReadyError

SHARED_BY_SITES = ("cipherdag", "nvflare", "torch", "tenseal")
"""What must fit together between sites."""
BEHIND_A_RESULT = ("cipherdag", "torch", "numpy", "cryptography", "tenseal")
"""What a result computed in one process depends on."""


def package_versions(packages: Iterable[str] = SHARED_BY_SITES) -> dict[str, str]:
    """Versions of Python and of some packages; "not installed" for one that is not here."""
    return {"python": platform.python_version()} | {name: _version(name) for name in packages}


def require_flare() -> None:
    """Refuse to go on without NVIDIA FLARE.

    Raises:
        SiteNotReadyError: It is not installed.
    """
    if _version("nvflare") == "not installed":
        raise SiteNotReadyError(
            "NVIDIA FLARE is not installed", remedy="Run `pip install 'cipherdag[flare]'`."
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
