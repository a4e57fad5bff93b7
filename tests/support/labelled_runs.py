"""Tables with two labels, for whole runs of FedCMFS."""

import numpy as np
import pandas as pd

from cipherdag import FedCMFS

LABELS = ("asthma", "bronchitis")


ALGORITHM = FedCMFS(k1=100, k2=100)


def discrete_table(rows=900, seed=0):
    """smoke -> bronchitis -> cough, bronchitis -> asthma <- pollen, and zodiac."""
    rng = np.random.default_rng(seed)

    def noisy(values, error=0.2):
        return values ^ (rng.random(rows) < error)

    smoke, pollen, zodiac = rng.integers(0, 2, (3, rows)).astype(bool)
    bronchitis = noisy(smoke)
    columns = {
        "zodiac": zodiac,
        "cough": noisy(bronchitis),
        "smoke": smoke,
        "bronchitis": bronchitis,
        "pollen": pollen,
        "asthma": noisy(bronchitis | pollen, 0.1),
    }
    return pd.DataFrame({name: own.astype(int) for name, own in columns.items()})


def continuous_table(rows=900, seed=0):
    rng = np.random.default_rng(seed)
    a, b, zodiac = rng.standard_normal((3, rows))
    one = 0.8 * a + rng.standard_normal(rows)
    two = 0.7 * b + 0.5 * one + rng.standard_normal(rows)
    effect = one + rng.standard_normal(rows)
    columns = {"effect": effect, "zodiac": zodiac, "a": a, "b": b, "one": one, "two": two}
    return pd.DataFrame(columns)


TABLES = {
    "discrete": (discrete_table(), LABELS),
    "continuous": (continuous_table(), ("one", "two")),
}
