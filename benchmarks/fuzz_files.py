"""Hostile files at every reader, for a minute each: mutations of ``tests/support/corpus``.

    python benchmarks/fuzz_files.py [--seconds 60] [--seed 0] [--atheris] [READER ...]

With ``--atheris`` one READER is fuzzed by libFuzzer, which looks for inputs that reach new code;
that takes ``pip install atheris``. A file that ends in anything but a named error goes into the
corpus, where ``tests/attacks/test_fuzz_files.py`` reads it from then on, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"


def by_mutation(fuzzing: Any, reader: str, *, seconds: float, seed: int) -> bool:
    """Fuzz a reader for a time; whether nothing but named errors escaped."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            read, refused = fuzzing.fuzz(reader, Path(folder), seed=seed, seconds=seconds)
        except Exception:  # noqa: BLE001 - whatever escapes is the finding
            traceback.print_exc()
            last = max(Path(folder).iterdir(), key=lambda path: path.stat().st_mtime_ns)
            fuzzing.keep(reader, last)
            return False
    print(f"{reader:<14} {read:>8,} read, {refused:>8,} refused", flush=True)
    return True


def by_coverage(atheris: Any, fuzzing: Any, reader: str, seconds: float) -> None:
    """Fuzz a reader with atheris until the time is over; it ends this process."""
    from cipherdag.errors import CipherdagError

    corpus = fuzzing.CORPUS / reader
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"input{fuzzing.samples(reader)[0].suffix}"

        def feed(content: bytes) -> None:
            path.write_bytes(content)
            with contextlib.suppress(CipherdagError):
                fuzzing.READERS[reader](path)

        limits = [f"-max_total_time={seconds:.0f}", f"-artifact_prefix={corpus}/"]
        (Path(folder) / "new").mkdir()
        atheris.Setup([sys.argv[0], f"{folder}/new", str(corpus), *limits], feed)
        atheris.Fuzz()


def main() -> int:
    """Fuzz the readers that are named, or all."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("readers", nargs="*", metavar="READER")
    asked.add_argument("--seconds", type=float, default=60.0)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--atheris", action="store_true")
    options = asked.parse_args()
    logging.disable(logging.CRITICAL)
    sys.path.insert(0, str(SUPPORT))
    if options.atheris:
        atheris = importlib.import_module("atheris")
        with atheris.instrument_imports(include=["cipherdag"]):
            fuzzing = importlib.import_module("file_fuzzing")
        by_coverage(atheris, fuzzing, *options.readers, options.seconds)
    fuzzing = importlib.import_module("file_fuzzing")
    fine = [
        by_mutation(fuzzing, reader, seconds=options.seconds, seed=options.seed)
        for reader in options.readers or fuzzing.READERS
    ]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
