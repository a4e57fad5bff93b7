"""These tests need PySyft's own environment and fail, rather than skip, without it."""

from __future__ import annotations

import importlib.metadata

import pytest


def pytest_configure(config):
    try:
        version = importlib.metadata.version("syft")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if version != "0.9.5":
        raise pytest.UsageError(
            f"tests/syft needs syft 0.9.5 and found {version}: "
            "make an environment as docs/engines/pysyft.md says"
        )
