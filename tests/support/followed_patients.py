"""Patients who are followed until an event or until they are lost, at several hospitals."""

import numpy as np
import pandas as pd

EDGES = (2.0, 4.0, 6.0, 9.0, 12.0, 18.0, 24.0)


def ward(n, seed, ratio=0.6, level=1.0):
    """Patients of two arms; ``ratio`` of hazards between them, ``level`` the hospital's own."""
    rng = np.random.default_rng(seed)
    arm, age = rng.integers(0, 2, n), rng.normal(60.0, 10.0, n).round()
    hazard = level * 0.1 * ratio**arm * np.exp(0.03 * (age - 60.0))
    dies, lost = rng.exponential(1.0 / hazard), rng.uniform(1.0, 40.0, n)
    return pd.DataFrame(
        {
            "age": age,
            "arm": np.where(arm == 1, "new", "old"),
            "died": np.where(dies <= lost, "yes", "no"),
            "months": np.minimum(dies, lost),
        }
    )


def wards():
    """Three hospitals of different size and level."""
    sizes = {"north": (400, 1, 1.0), "south": (700, 2, 1.6), "west": (300, 3, 0.8)}
    return {name: ward(n, seed, level=level) for name, (n, seed, level) in sizes.items()}


def binned(rows, edges=EDGES):
    """Times at the upper edge of their bin, and whether the event was seen up to the last one."""
    times = rows["months"].to_numpy()
    places = np.searchsorted(edges, times, side="left")
    inside = places < len(edges)
    ended = (rows["died"] == "yes").to_numpy() & inside
    return np.asarray(edges)[np.minimum(places, len(edges) - 1)], ended
