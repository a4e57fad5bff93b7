"""Megabytes on the disk of an installation, and what every extra adds (docs/roles/it.md).

    python benchmarks/installed_sizes.py --wheels WHEELS

Fills WHEELS with the wheels of cipherdag and all that it needs, unless they are there, then
installs from this folder alone, without a network, into one new environment: the package, then one
extra after the other. Sizes are of files before anything is compiled; the first use adds the
bytecode of what it imports.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("bfv", "flare", "plot", "parquet", "excel", "duckdb", "sql", "dev")


def megabytes(folder: Path) -> float:
    """What the files of a folder hold, in 10^6 bytes."""
    return sum(own.lstat().st_size for own in folder.rglob("*") if own.is_file()) / 1e6


def fill(wheels: Path) -> None:
    """Get every wheel, and make cipherdag's own."""
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels),
        "--constraint", "constraints.txt", f".[{','.join(EXTRAS)}]",
    )  # fmt: skip


def run(*words: str) -> None:
    """A command in the checkout, with no index but what it names."""
    own = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    environment = dict(os.environ) if "wheel" in words else own | {"PIP_CONFIG_FILE": os.devnull}
    subprocess.run(words, cwd=ROOT, check=True, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True)
    wheels = parser.parse_args().wheels.resolve()
    if not wheels.exists():
        fill(wheels)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    if missing := set(EXTRAS) - set(known["optional-dependencies"]):
        raise SystemExit(f"no such extras: {missing}")
    print(f"{len(list(wheels.iterdir()))} wheels, {megabytes(wheels):.0f} MB\n")
    print("| installed | MB | more than above |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        before = megabytes(Path(folder))
        print(f"| an empty environment | {before:.0f} | |")
        for extra in ("", *EXTRAS):
            wanted = f"cipherdag[{extra}]" if extra else "cipherdag"
            run(
                f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--no-compile",
                "--no-index", "--find-links", str(wheels), wanted,
            )  # fmt: skip
            now = megabytes(Path(folder))
            print(f"| `{wanted}` | {now:.0f} | {now - before:.0f} |", flush=True)
            before = now


if __name__ == "__main__":
    main()
