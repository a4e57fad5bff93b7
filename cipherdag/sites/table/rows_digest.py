"""A digest of all rows of a site, from which numbers follow that only the site can foretell."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rows_digest(purpose: bytes, *arrays: NDArray[Any] | None) -> bytes:
    """SHA-256 of arrays for one purpose: 32 bytes, which stay at the site."""
    state = hashlib.sha256(purpose)
    for array in arrays:
        own = np.zeros(0) if array is None else np.ascontiguousarray(array)
        state.update(own.nbytes.to_bytes(8, "big"))
        state.update(own.reshape(-1).view(np.uint8).data)
    return state.digest()
