"""A house with one more algorithm: that of the how-to, in one folder and one registered line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
from documents import ROOT, blocks

PAGE = "docs/howto/write-an-algorithm.md"
ALARM = ("alarm", "blood_pressure", "heart_rate", "volume", "stroke")


def built_house(folder):
    """A copy of the package in ``folder`` with the page's algorithm; nothing else is changed."""
    shutil.copytree(
        ROOT / "cipherdag", folder / "cipherdag", ignore=shutil.ignore_patterns("__pycache__")
    )
    python = [block.code for block in blocks(PAGE) if block.language == "python"]
    own = folder / "cipherdag" / "algorithms" / "chow_liu"
    own.mkdir()
    (own / "__init__.py").write_text('"""Chow-Liu trees."""\n', "utf-8")
    (own / "algorithm.py").write_text("\n".join(python[:2]), "utf-8")
    (line,) = [b.code for b in blocks(PAGE) if b.code.strip().startswith('"chow-liu":')]
    registry = folder / "cipherdag" / "algorithms" / "registry.py"
    text = registry.read_text("utf-8")
    last = '    "fedcd": '
    assert text.count(last) == 1
    registry.write_text(text.replace(last, line + last), "utf-8")
    return folder


def table(path, rows=900):
    """Continuous columns that form a tree, as a CSV."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=(rows, len(ALARM)))
    for column in range(1, len(ALARM)):
        values[:, column] += 0.8 * values[:, (column - 1) // 2]
    pd.DataFrame(values.round(4), columns=list(ALARM)).to_csv(path, index=False)
    return path


def run(house, *words, timeout=300):
    """One Python command in the house; its exit code, and all that it printed."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(house), "OMP_NUM_THREADS": "1"},
        cwd=house,
    )
    return done.returncode, done.stdout + done.stderr
