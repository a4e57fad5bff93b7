"""Versions of installed packages: what a plan names, sites compare, and a result rests on."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from cipherdag.errors import SiteNotReadyError

COMPUTED_WITH = ("cipherdag", "numpy", "scipy", "torch")
"""The libraries whose versions stand in a plan."""
SHARED_BY_SITES = ("cipherdag", "nvflare", "torch", "tenseal")
"""What must fit together between sites."""
BEHIND_A_RESULT = ("cipherdag", "torch", "numpy", "cryptography", "tenseal")
"""What a result computed in one process depends on."""
ABSENT = "not installed"


def computed_with(packages: Iterable[str] = COMPUTED_WITH) -> dict[str, str]:
    """The versions of some packages as they are here; "not installed" for one that is not."""
    return {name: _version(name) for name in packages}


def package_versions(packages: Iterable[str] = SHARED_BY_SITES) -> dict[str, str]:
    """Versions of Python and of some packages, as `computed_with` has them."""
    return {"python": platform.python_version()} | computed_with(packages)


def require_flare() -> None:
    """Raise SiteNotReadyError unless NVIDIA FLARE is installed."""
    if _version("nvflare") == ABSENT:
        raise SiteNotReadyError(
            "NVIDIA FLARE is not installed", remedy="Run `pip install 'cipherdag[flare]'`."
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT
