"""Where a site's tensors live, and how much memory and how many rows they take at a time."""

from __future__ import annotations

import torch

from cipherdag.errors import ParameterError

DEFAULT_MEMORY = 256 * 2**20
ROW_BLOCK = 8192
"""Rows that are summed at a time, the same however much memory there is."""


def resolve_device(name: str) -> torch.device:
    """The torch device of this name; ``auto`` is CUDA where there is one, the CPU otherwise.

    Raises:
        ParameterError: Unknown name, or a CUDA device that this machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ParameterError("device must be 'auto', 'cpu', 'cuda' or 'cuda:N'") from error
    if device.type not in ("cpu", "cuda"):
        raise ParameterError("device must be 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ParameterError(f"device '{name}' does not exist on this machine")
    return device
