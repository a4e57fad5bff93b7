"""Bayesian networks in the interchange format BIF, and samples with interventions."""

from __future__ import annotations

import gzip
import re
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cipherdag.graphs.networks import DiscreteNetwork

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = re.compile(r"variable\s+(\S+)\s*\{[^}]*?\{([^}]*)\}", re.DOTALL)
TABLE = re.compile(r"probability\s*\(\s*([^|)\s]+)\s*(?:\|([^)]*))?\)\s*\{(.*?)\n\}", re.DOTALL)
ROW = re.compile(r"\(([^)]*)\)\s*([^;]+);")


def read_bif(path: Path, *, numbered: bool = False) -> DiscreteNetwork:
    """The network of a ``.bif`` or ``.bif.gz``; categories may be numbered in the file's order.

    Probabilities of a row are divided by their sum, which files round to a few digits.
    """
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    states = {name: _words(listed) for name, listed in VARIABLE.findall(text)}
    parents, tables = {}, {}
    for name, given, body in TABLE.findall(text):
        parents[name] = tuple(_words(given))
        tables[name] = _table(name, parents[name], body, states)
    return DiscreteNetwork(
        names=tuple(states),
        parents=parents,
        categories={
            name: tuple(map(str, range(len(own))) if numbered else own)
            for name, own in states.items()
        },
        tables=tables,
    )


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


def _table(name, parents, body, states):
    shape = [len(states[parent]) for parent in parents]
    table = np.full((*shape, len(states[name])), np.nan)
    if not parents:
        table[:] = _numbers(body.strip().removeprefix("table").rstrip(";"))
    for where, row in ROW.findall(body) if parents else ():
        values = _words(where)
        index = tuple(states[p].index(v) for p, v in zip(parents, values, strict=True))
        table[index] = _numbers(row)
    missing = [cell for cell in product(*map(range, shape)) if np.isnan(table[cell]).any()]
    if missing:
        raise ValueError(f"the table of {name} lacks {missing[:3]}")
    return table / table.sum(axis=-1, keepdims=True)


def _words(text):
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text):
    return [float(word) for word in text.replace(",", " ").split()]
