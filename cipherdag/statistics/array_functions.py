"""numpy on a processor and torch on another device: what one code path needs of both.

Most operators and functions have the same name in both; here are those that differ.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, IndexArray

Array = Any  # a numpy array, or a tensor on the device of a site


def functions_of(array: Array) -> Any:
    """Return the module whose functions take this array: numpy or torch."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    import torch

    return torch


def like(values: NDArray[Any], array: Array) -> Array:
    """Return numpy values as an array of the kind, and on the device, of ``array``."""
    if isinstance(array, (np.ndarray, np.generic)):
        return values
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(array.device)


def host(array: Array) -> NDArray[Any]:
    """Return an array as numpy has it; the only copy from a device."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    copied: NDArray[Any] = array.cpu().numpy()
    return copied


def full(shape: tuple[int, ...], value: float, array: Array) -> Array:
    """Return an array filled with one value, of the kind, and on the device, of ``array``."""
    if isinstance(array, np.ndarray):
        return np.full(shape, value) if value else np.zeros(shape)
    return array.new_full(shape, value, dtype=functions_of(array).float64)


def empty(shape: tuple[int, ...], array: Array) -> Array:
    """Return an array yet to be filled, of the type, and on the device, of ``array``."""
    return np.empty(shape) if isinstance(array, np.ndarray) else array.new_empty(shape)


def at_least(array: Array, least: float) -> Array:
    """Return the larger of each entry and a number, shape as given."""
    return np.maximum(array, least) if isinstance(array, np.ndarray) else array.clamp(min=least)


def maxima(array: Array, axis: int | tuple[int, ...]) -> Array:
    """Return the largest entries along an axis, or several, that the shape then lacks."""
    return array.max(axis=axis) if isinstance(array, np.ndarray) else array.amax(dim=axis)


def of_type(array: Array, kind: str) -> Array:
    """Return an array's entries as another type, shape as given."""
    if isinstance(array, np.ndarray):
        return array.astype(kind)
    return array.to(getattr(functions_of(array), kind))


def floats(array: Array) -> Array:
    """Return indicators or counts as float64, shape as given."""
    return of_type(array, "float64")


def indices(array: Array) -> Array:
    """Return whole numbers as int64, shape as given."""
    return of_type(array, "int64")


def in_units(values: Array, units: IndexArray | int) -> Array:
    """Return values times 2**-units, exactly, shape (..., k) for units of shape (k,)."""
    if isinstance(values, np.ndarray):
        return np.ldexp(values, -units)
    # 2**-units may overflow, where its product with a value does not
    part = -units // 2
    return values * like(np.ldexp(1.0, part), values) * like(np.ldexp(1.0, -units - part), values)


def average(values: Array, weights: Array | None) -> Array:
    """Return means of every column, weighted by row unless None, shape (k,) of (n, k)."""
    if isinstance(values, np.ndarray):
        return np.average(values, axis=0, weights=weights)
    if weights is None:
        return values.mean(axis=0)
    return weights @ values / weights.sum()


def segment_sums(values: Array, sizes: IndexArray) -> Array:
    """Sum segments of S lengths that follow one another along the last axis, (..., S) of (..., n).

    None of them is empty.
    """
    starts = np.cumsum(sizes) - sizes
    if isinstance(values, np.ndarray):
        return np.add.reduceat(values, starts, axis=-1)
    import torch

    lengths = like(sizes, values)
    summed = torch.segment_reduce(values.movedim(-1, 0).contiguous(), "sum", lengths=lengths)
    return summed.movedim(0, -1)


def repeated(values: Array, sizes: IndexArray) -> Array:
    """Repeat every entry as often as ``sizes`` says, shape (sum of sizes,) of (S,)."""
    if isinstance(values, np.ndarray):
        return np.repeat(values, sizes)
    return values.repeat_interleave(like(sizes, values))


def quantiles(values: Array, shares: Sequence[float]) -> Array:
    """Return quantiles of every column, linear between order statistics, shape (S, k) of (n, k)."""
    if isinstance(values, np.ndarray):
        return np.quantile(values, shares, axis=0)
    ordered = values.sort(dim=0).values
    at = np.array(shares) * (len(values) - 1)
    low = np.floor(at).astype(np.int64)
    high, share = np.minimum(low + 1, len(values) - 1), like((at - low)[:, None], values)
    below, above = ordered[like(low, values)], ordered[like(high, values)]
    return below + share * (above - below)


def extremes(columns: Array) -> tuple[Array, Array]:
    """Return least and largest value of rows, (k,) each of (k, n), but NaN; infinite if none."""
    if isinstance(columns, np.ndarray):
        low = np.fmin.reduce(columns, axis=1, initial=np.inf)
        return low, np.fmax.reduce(columns, axis=1, initial=-np.inf)
    missing = columns.isnan()
    low, high = (columns.masked_fill(missing, end) for end in (np.inf, -np.inf))
    return low.amin(dim=1), high.amax(dim=1)


def least_squares(design: Array, targets: Array) -> tuple[Array, int]:
    """Return least squares of smallest norm, (k, m), of (n, k) and (n, m), and the rank."""
    if isinstance(design, np.ndarray):
        slopes, _, rank, _ = np.linalg.lstsq(design, targets, rcond=None)
        return slopes, int(rank)
    import torch

    # torch on a GPU has no solver that finds the rank; triangle has the design's
    basis, triangle = torch.linalg.qr(design)
    left, sizes, right = np.linalg.svd(host(triangle))
    least = np.finfo(np.float64).eps * max(design.shape) * sizes.max(initial=0.0)
    positive = sizes > least
    inverse: FloatMatrix = (right[: len(sizes)].T[:, positive] / sizes[positive]) @ (
        left[:, : len(sizes)].T[positive]
    )
    return like(inverse, design) @ (basis.T @ targets), int(positive.sum())
