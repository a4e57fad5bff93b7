"""Reads a Bayesian network in the interchange format BIF, to draw samples from it."""

from __future__ import annotations

import gzip
import re
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.graphs.networks import DiscreteNetwork

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = re.compile(r"variable\s+(\S+)\s*\{[^}]*?\{([^}]*)\}", re.DOTALL)
TABLE = re.compile(r"probability\s*\(\s*([^|)\s]+)\s*(?:\|([^)]*))?\)\s*\{(.*?)\n\}", re.DOTALL)
ROW = re.compile(r"\(([^)]*)\)\s*([^;]+);")


def read_bif(path: Path) -> DiscreteNetwork:
    """The network of a ``.bif`` or ``.bif.gz``; categories are numbered in the file's order.

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
        categories={name: tuple(map(str, range(len(own)))) for name, own in states.items()},
        tables=tables,
    )


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
