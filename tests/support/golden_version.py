"""Writes the files of this version that every later one reads: a plan, results and their ledgers.

python tests/support/golden_version.py

Until a version is released its files are written anew when a format changes; afterwards never.
"""

import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import adversary

from cipherdag import Describe, Effect, Federation, FedPC
from cipherdag.algorithms.registry import program_digest
from cipherdag.protocol.plan import Member, make_plan

GOLDEN = Path(__file__).parent / "golden"
KEPT = ("result.json", "run.toml", "schema.toml", "releases")
ALGORITHMS = (
    FedPC(),
    Describe(),
    Effect(treatment="Theatre", outcome="Theft", adjust="Cholesterol"),
)


def write(folder):
    """Write the plan and a result of every algorithm, without pages and drawings."""
    cohort = [Member(name=name, identity=bytes([k]) * 32) for k, name in enumerate("abc", 1)]
    plan = make_plan(
        cohort,
        algorithm="fedpc",
        program=program_digest("fedpc"),
        purpose="Which habits precede dyspnoea?",
        protection="masking",
    )
    (folder / "plan.json").write_text(plan.dumps(), "utf-8")
    tables = {f"site-{k}": adversary.patients(adversary.ROWS[k], k) for k in range(3)}
    for algorithm in ALGORITHMS:
        with tempfile.TemporaryDirectory() as work:
            Federation.simulate(tables, device="cpu").run(algorithm).save(work, force=True)
            for name in KEPT:
                source, target = Path(work) / name, folder / algorithm.name / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, target)
                elif source.exists():
                    shutil.copy(source, target)


def main():
    folder = GOLDEN / f"version-{version('cipherdag')}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write(folder)


if __name__ == "__main__":
    main()
