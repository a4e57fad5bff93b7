"""Settings of all tests: machines are shared, so no property test fails for being slow."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("cipherdag", deadline=None)
settings.load_profile("cipherdag")
