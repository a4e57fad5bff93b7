"""Versions of the packages that must fit together between sites."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from cipherdag.errors import SiteNotReadyError

PACKAGES = ("cipherdag", "nvflare", "torch", "tenseal")


def package_versions() -> dict[str, str]:
    """Versions of what must fit together between sites."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def require_flare() -> None:
    """Refuse to go on without NVIDIA FLARE.

    Raises:
        SiteNotReadyError: It is not installed.
    """
    if package_versions()["nvflare"] == "not installed":
        raise SiteNotReadyError(
            "NVIDIA FLARE is not installed", remedy="Run `pip install 'cipherdag[flare]'`."
        )
