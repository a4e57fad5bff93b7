"""Discrete Bayesian networks from BIF files, sampled with interventions."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cipherdag.graphs.networks import DiscreteNetwork

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = re.compile(r"variable\s+(\S+)\s*\{[^{]*\{([^}]*)\}")
BLOCK = re.compile(r"probability\s*\(\s*([^|)]+?)\s*(?:\|\s*([^)]*))?\)\s*\{([^}]*)\}")
ROW = re.compile(r"\(([^)]*)\)\s*([^;]*);")


def read_bif(path: Path) -> DiscreteNetwork:
    """A network from a BIF file, which may be gzipped; every table is normalised to sum to 1."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    categories = {name: split(states) for name, states in VARIABLE.findall(text)}
    parents, tables = {}, {}
    for name, given, body in BLOCK.findall(text):
        parents[name] = split(given) if given else ()
        shape = [len(categories[v]) for v in (*parents[name], name)]
        table = np.zeros(shape)
        if not parents[name]:
            table[:] = [float(x) for x in split(body.replace("table", "").strip().rstrip(";"))]
        for states, chances in ROW.findall(body):
            place = tuple(
                categories[v].index(s) for v, s in zip(parents[name], split(states), strict=True)
            )
            table[place] = [float(x) for x in split(chances)]
        tables[name] = table / table.sum(axis=-1, keepdims=True)
    return DiscreteNetwork(tuple(categories), parents, categories, tables)


def split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def with_interventions(
    network: DiscreteNetwork, observational: int, per_variable: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Observational rows, and rows in which each variable in turn is drawn uniformly."""
    frames = [network.sample(observational, rng).assign(intervened="")]
    for name in network.names:
        count = len(network.categories[name])
        cut = DiscreteNetwork(
            network.names,
            {**network.parents, name: ()},
            network.categories,
            {**network.tables, name: np.full(count, 1.0 / count)},
        )
        frames.append(cut.sample(per_variable, rng).assign(intervened=name))
    return pd.concat(frames, ignore_index=True)
