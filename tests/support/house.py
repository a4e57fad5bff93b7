"""A copy of the package in a folder of its own, to which a test adds parts, and what they cost."""

import os
import shutil
import subprocess
import sys
from difflib import SequenceMatcher

import numpy as np
import pandas as pd
from documents import ROOT, blocks

PAGE = "docs/howto/write-an-algorithm.md"
ALARM = ("alarm", "blood_pressure", "heart_rate", "volume", "stroke")


def copied(folder):
    """The package in ``folder``, as it is."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cipherdag", folder / "cipherdag", ignore=ignored)
    return folder


def add(house, files, lines):
    """Write a part's new files, and put its lines before others; paths are those in the package.

    Returns:
        Its cost: the new folders and files, and for every other file how many lines changed.
    """
    before = _texts(house)
    for path, text in files.items():
        (house / "cipherdag" / path).parent.mkdir(exist_ok=True)
        (house / "cipherdag" / path).write_text(text, "utf-8")
    for path, following, line in lines:
        registry = house / "cipherdag" / path
        text = registry.read_text("utf-8")
        assert text.count(following) == 1
        registry.write_text(text.replace(following, line + following), "utf-8")
    after = _texts(house)
    new = {_new(path, before) for path in after.keys() - before.keys()}
    changed = {path: _changed(text, after[path]) for path, text in before.items()}
    return new, {path: count for path, count in changed.items() if count}


def _texts(house):
    files = (file for file in (house / "cipherdag").rglob("*") if "__pycache__" not in file.parts)
    return {
        str(file.relative_to(house / "cipherdag")): file.read_text("utf-8")
        for file in files
        if file.is_file() and file.suffix != ".mo"  # made of the .po beside it
    }


def _new(path, before):
    """A new file, or the folder that is new with it."""
    folder = path.rpartition("/")[0]
    return path if any(other.startswith(f"{folder}/") for other in before) else f"{folder}/"


def _changed(before, after):
    if before == after:
        return 0
    matched = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return sum(
        max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in matched.get_opcodes() if kind != "equal"
    )


def chow_liu():
    """The files and the line of the how-to's algorithm."""
    python = [block.code for block in blocks(PAGE) if block.language == "python"]
    files = {"__init__.py": '"""Chow-Liu trees."""\n', "algorithm.py": "\n".join(python[:2])}
    (line,) = [b.code for b in blocks(PAGE) if b.code.strip().startswith('"chow-liu":')]
    folder = {f"algorithms/chow_liu/{name}": text for name, text in files.items()}
    return folder, [("algorithms/registry.py", '    "fedcd": ', line)]


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
