"""The eight multi-label data sets: their split, their schema, and sites drawn as the paper says.

    python benchmarks/multilabel_data.py DATA_FOLDER

writes their schemas to schemas/multilabel/, with which the command line reads the files, too:

    cipherdag simulate fedcmfs flags.csv.gz --schema benchmarks/schemas/multilabel/flags.toml
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from cipherdag import Schema
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.site_table import SiteTable, load_table

SCHEMAS = Path(__file__).parent / "schemas" / "multilabel"
TRAIN = {
    "CHD_49": 499,
    "VirusGO": 124,
    "yeast": 1500,
    "flags": 129,
    "image": 1600,
    "slashdot": 3024,
    "business": 2000,
    "education": 2000,
}
"""Training rows by data set (Table 2); where the files hold a split of that size, it is theirs."""

LARGE = ("slashdot", "business", "education")
"""Data sets of which each site holds a smaller share (section 5.3)."""

FLAGS_EDGES = {
    "area": (10.0, 100.0, 500.0),
    "population": (0.0, 5.0, 15.0),
    "bars": (0.0,),
    "stripes": (0.0, 3.0),
    "colours": (2.0, 3.0),
    "circles": (0.0,),
    "crosses": (0.0,),
    "saltires": (0.0,),
    "quarters": (0.0,),
    "sunstars": (0.0, 1.0),
}
"""Cuts of the numbers of flags near their quartiles, so that G2 can treat all its columns."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    folder = options.parse_args().folder
    SCHEMAS.mkdir(parents=True, exist_ok=True)
    for name in TRAIN:
        frame = pd.read_csv(folder / f"{name}.csv.gz")
        meta = json.loads((folder / f"{name}.meta.json").read_text("utf-8"))
        labels = list(frame.columns[-meta["n_labels"] :])
        schema = schema_of(frame, labels, edges=FLAGS_EDGES if name == "flags" else {})
        (SCHEMAS / f"{name}.toml").write_text(schema.dumps(), "utf-8")


@dataclass(frozen=True)
class MultiLabelData:
    """One data set.

    Attributes:
        name: Its name.
        table: All rows, aligned and coded by the schema.
        features: What the classifier sees, the numbers of the file, shape (n, d).
        labels: 0/1, shape (n, q).
        feature_positions: Position of every feature among the aligned variables, shape (d,).
        label_positions: Position of every label, ascending, shape (q,).
        n_train: Training rows.
        fixed: Whether the first ``n_train`` rows are the training rows; drawn otherwise.
    """

    name: str
    table: SiteTable
    features: np.ndarray
    labels: np.ndarray
    feature_positions: np.ndarray
    label_positions: np.ndarray
    n_train: int
    fixed: bool

    def split(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows."""
        rows = np.arange(len(self.features))
        if not self.fixed:
            rng.shuffle(rows)
        return np.sort(rows[: self.n_train]), np.sort(rows[self.n_train :])

    def columns(self, positions) -> np.ndarray:
        """Columns of ``features`` at these positions among the variables, ascending."""
        return np.flatnonzero(np.isin(self.feature_positions, list(positions)))


def load(folder: Path, name: str, *, coded: bool = False) -> MultiLabelData:
    """Read ``<name>.csv.gz`` and ``<name>.meta.json`` by its schema of `SCHEMAS`.

    ``coded`` shows codes to the classifier.
    """
    frame = pd.read_csv(folder / f"{name}.csv.gz")
    meta = json.loads((folder / f"{name}.meta.json").read_text("utf-8"))
    schema = Schema.load(SCHEMAS / f"{name}.toml")
    marked = np.array([column.label for column in schema.variables])
    split = meta["split"]
    table = load_table(frame, schema)
    features = frame[[v.name for v in schema.variables if not v.label]].to_numpy(np.float64)
    return MultiLabelData(
        name=name,
        table=table,
        features=table.codes[:, ~marked].astype(np.float64) if coded else features,
        labels=frame[[v.name for v in schema.variables if v.label]].to_numpy(np.int64),
        feature_positions=np.flatnonzero(~marked),
        label_positions=np.flatnonzero(marked),
        n_train=TRAIN[name],
        fixed=split is not None and split["n_train"] == TRAIN[name],
    )


def schema_of(
    frame: pd.DataFrame, labels: list[str], edges: dict[str, tuple[float, ...]]
) -> Schema:
    """Categories where every feature has at most 12 values, numbers beside 0/1 labels otherwise.

    A site may hold one value only of any column: small sites of sparse data do.
    """
    features = [name for name in frame.columns if name not in labels and name not in edges]
    discrete = max(frame[name].nunique() for name in features) <= 12
    columns = []
    for name in frame.columns:
        if name in edges:
            column = Column(name=name, kind="binned", edges=edges[name])
        elif discrete or name in labels:
            column = Column(name=name, kind="discrete", categories=categories(frame[name]))
        else:
            column = Column(name=name, kind="continuous")
        columns.append(replace(column, allow_constant=True, label=name in labels))
    return Schema(tuple(columns))


def categories(values: pd.Series) -> tuple[str, ...]:
    """The values as texts, ascending; a label has both of its values even if one never occurs."""
    present = sorted({*values.unique(), *((0, 1) if set(values.unique()) <= {0, 1} else ())})
    return tuple(str(value) for value in present)


def draw_sites(
    train: np.ndarray, n_sites: int, shares: tuple[float, float], rng: np.random.Generator
) -> list[np.ndarray]:
    """Each site's rows: a share of the training rows without repetition (section 5.3).

    Args:
        train: Training rows.
        n_sites: Number of sites; two sites may draw the same row.
        shares: Smallest and largest share, evenly spaced over the sites.
        rng: Source of randomness.
    """
    sizes = np.linspace(*shares, n_sites) * len(train)
    return [np.sort(rng.choice(train, max(round(size), 2), replace=False)) for size in sizes]


if __name__ == "__main__":
    main()
