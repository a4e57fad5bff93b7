"""Small simulated runs of every algorithm, whose digests hold a refactoring bit for bit.

    python benchmarks/golden_runs.py --write [--keep FOLDER] [--only "*FedPC*"]
    python benchmarks/golden_runs.py --check [--keep FOLDER] [--only "*FedPC*"]

``--write`` puts the digests into results/golden_runs.json; ``--check`` compares, and its exit code
is 1 on a difference. There are three of every run. ``opened``: the bytes of every opened vector in
order. ``result``: result.json. ``report``: the lines of the terminal, all other files of the result
folder, what the log said, and the records of the ledgers. Times, numbers of bytes, versions, hashes
and keys that are drawn anew in every run are taken out. A run that fails has its error in place of
a result. With ``--keep FOLDER`` the texts are written, too, or compared with those written before.
The runs stand in data/golden_runs.txt: data, algorithm, parameters, or with ``published`` those of
a paper or its program; of the sites protection, keyed, and ``site.`` before a field of their
policies. Digests hold on one machine with one set of
packages: on another write them anew before a change.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import cipherdag
from cipherdag import CausalGraph, Federation, Knowledge, Policy, Run
from cipherdag.algorithms.parameters import flattened, grouped
from cipherdag.findings.graph_finding import GraphFinding

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
DIGESTS = Path(__file__).parent / "results" / "golden_runs.json"
PACKAGES = ("numpy", "scipy", "pandas", "torch", "tenseal", "networkx")
DRAWN = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.+]+|\brun [0-9a-f]{8}\b")
RELEASES = ["round", "algorithm", "kind", "values", "protection", "sites", "question"]
QUESTIONS = Policy().questions | {"regression-steps", "hazard-steps", "hazard-sums", "effect-sums"}
NAMES = ("age", "smoker", "stage", "weight", "angina", "vessels")
ARROWS = [("age", "smoker"), ("age", "stage"), ("smoker", "stage"), ("stage", "weight")]
TRUTH = CausalGraph.from_edges(NAMES, directed=[*ARROWS, ("weight", "angina")])
VALUES = {
    "DAG": TRUTH.dumps(),
    "NO_OPT_IN": Policy().questions - {"edge-votes"},  # a simulation takes these for all
    "SEVERAL": CausalGraph.from_edges(NAMES, directed=ARROWS).to_cpdag().dumps(),
    "KNOWN": Knowledge(
        required=[("age", "stage")], forbidden=[("weight", "smoker")], tiers=[["age"], ["angina"]]
    ),
}
DATA = {  # kinds of columns, a letter each: n a number, else categories; share of missing cells
    "categories": ("323223", 0.0),
    "numbers": ("nnnnnn", 0.0),
    "mixed": ("n23n2n", 0.0),
    "gaps": ("n23n2n", 0.04),
    "category-gaps": ("323223", 0.04),
    "number-gaps": ("nnnnnn", 0.04),
    "label-gaps": ("222222", 0.04),
    "related": ("n23n2n", 0.0),
    "lacking": ("22322", 0.0),
    "labels": ("223222", 0.0),
    "interventions": ("2232", 0.0),
    "followed": ("n23n", 0.03),
}
RUNS = (Path(__file__).parent / "data" / "golden_runs.txt").read_text("utf-8").splitlines()
SHORT = {"rounds": 2, "epochs": 1, "fit_steps": 12, "graph_steps": 4, "graphs": 6, "hidden": 8}


def frame_of(name: str, site: int) -> pd.DataFrame:
    """A site's rows: each column depends on the two before it, and a little on the site."""
    kinds, missing = DATA[name]
    rng, rows, made = np.random.default_rng((7, site, len(kinds))), 150 + 30 * site, []
    for v, kind in enumerate(kinds):
        pull = sum((0.5 * own for own in made[max(v - 2, 0) : v]), start=np.full(rows, 0.1 * site))
        if kind == "n":
            made.append(pull + rng.standard_normal(rows))
        else:
            slopes = np.linspace(-1.0, 1.0, int(kind))
            made.append((rng.gumbel(size=(rows, int(kind))) + np.outer(pull, slopes)).argmax(1))
    frame = pd.DataFrame(dict(zip(NAMES, made, strict=False)))
    frame = frame.astype(float).mask(rng.random(frame.shape) < missing) if missing else frame
    if name == "related":
        frame = frame.assign(weight=frame["age"] + frame["vessels"])
    frame = frame.drop(columns=["weight"] * (name == "lacking" and site > 3))  # 3 sites of 6
    if name == "followed":
        risk = np.exp(0.4 * frame["smoker"].fillna(0) + 0.2 * frame["age"].fillna(0))
        until, end = rng.exponential(3.0 / risk), rng.uniform(0.5, 5.0, rows)
        frame = frame.assign(time=np.minimum(until, end), event=(until <= end).astype(int))
    if name == "interventions":
        regime = rng.integers(-1, len(kinds), rows)
        frame = frame.assign(regime=[NAMES[own] if own >= 0 else "" for own in regime])
        for v, kind in enumerate(kinds):
            drawn = rng.integers(0, int(kind), rows)
            frame[NAMES[v]] = np.where(regime == v, drawn, frame[NAMES[v]])
    return frame


def federation(data: str, own_keys: bool, protection: str, **limits: Any) -> Federation:
    """Sites whose policies allow what the runs ask for, but where limits say otherwise."""
    allowed = {"questions": QUESTIONS, "reveal": "sums", "allow_unprotected": True}
    made = Federation.simulate(
        {f"site-{n}": frame_of(data, n) for n in range(1, 7 if data == "lacking" else 5)},
        labels=("angina", "vessels") if data.startswith("label") else (),
        interventions="regime" if data == "interventions" else None,
        overlapping=data == "lacking",
        protection=protection,
        device="cpu",
        policy=Policy(**{"min_cell_size": 0, **allowed, **limits}),
    )
    sites = (replace(own, keyed=lambda rows: sha256(b"key" + rows).digest()) for own in made.sites)
    return replace(made, sites=tuple(sites)) if own_keys else made


def listening(kind: type, heard: list[tuple[str, np.ndarray]]) -> type:
    """The same algorithm, of which every opened vector is heard."""

    def ask(self, facts) -> Iterator[Any]:
        asking, total = kind.ask(self, facts), None
        while True:
            try:
                question = asking.send(total)
            except StopIteration as finished:
                return finished.value
            total = yield question
            heard.append((question.label, np.array(total, dtype="<f8")))

    return type(kind.__name__, (kind,), {"__slots__": (), "ask": ask})


def outcome(line: str) -> dict[str, tuple[str, str]]:
    """What a run opened, its result and its report: of each the digest and the text."""
    data, name, *given = line.split()
    parameters: dict[str, Any] = SHORT.copy() if name == "FedCD" else {}
    parameters |= {key: _value(value) for key, value in (own.split("=", 1) for own in given)}
    own_keys, protection = parameters.pop("keyed", False), parameters.pop("protection", "none")
    source = parameters.pop("published", "")
    limits = {key[5:]: parameters.pop(key) for key in [*parameters] if key.startswith("site.")}
    heard: list[tuple[str, np.ndarray]] = []
    said = logging.StreamHandler(io.StringIO())
    logging.getLogger("cipherdag").handlers = [said]
    try:
        made = listening(getattr(cipherdag, name), heard)
        values = flattened(made, parameters)
        algorithm = made.as_published(source, **values) if source else made(**grouped(made, values))
        result = federation(data, own_keys, protection, **limits).run(algorithm, seed=3)
        found, report = written(result)
    except Exception as error:  # noqa: BLE001 - the other runs go on
        found = report = f"failed: {type(error).__name__}: {error} {getattr(error, 'remedy', '')}"
    opened = "\n".join(f"{label}\n{own.tolist()}".replace(", ", "\n") for label, own in heard)
    report = DRAWN.sub("...", f"{said.stream.getvalue()}\n{report}")
    raw = b"".join(own.tobytes() for _, own in heard)
    texts = {"result": found, "report": report}
    digests = {part: (sha256(own.encode()).hexdigest(), own) for part, own in texts.items()}
    return {"opened": (sha256(raw).hexdigest(), opened), **digests}


def written(result: Any) -> tuple[str, str]:
    """The text of result.json, and of all else that a run writes, without what changes."""
    steady: dict[str, Any] = {"seconds": 0.0, "bytes_sent_per_site": dict.fromkeys(result.sites, 1)}
    rounds = tuple(replace(own, **steady) for own in result.rounds)
    shown = replace(
        result, **steady, rounds=rounds, versions={"cipherdag": ""}, ledgers={}, heads={}
    )
    compared = isinstance(result.finding, GraphFinding) and set(result.identifiers) == set(NAMES)
    truth = {"truth": TRUTH} if compared else {}
    with TemporaryDirectory() as folder:
        shown.save(folder, **truth)
        loaded = Run.load(folder)
        files = sorted(own for own in Path(folder).iterdir() if own.is_file())
        texts = {own.name: own.read_text("utf-8") for own in files}
    found = texts.pop("result.json")
    parts = [f"== {name}\n{text}" for name, text in texts.items()]
    # of all sites together: which of them hold the shares of secure tests is drawn
    released = result.releases[RELEASES].sort_values(RELEASES).to_csv(index=False)
    report = "\n".join([*shown.lines(**truth), *loaded.lines(**truth), *parts, released])
    return found, report


def _value(text: str) -> Any:
    if text in VALUES:
        return VALUES[text]
    try:
        read = json.loads(text)
    except ValueError:
        return text
    return tuple(read) if isinstance(read, list) else read


def text_file(keep: Path, line: str, part: str) -> Path:
    """The file of a text of a run."""
    return keep / re.sub(r"[^\w.=,-]+", "_", line) / part


def differences(line: str, now: dict, before: dict | None, keep: Path | None) -> list[str]:
    """What to say of a run whose digests are not those of before."""
    if before is None:
        return [f"{line}: not among the digests"]
    shown = []
    for part in (own for own in now if now[own][0] != before[own]):
        shown.append(f"{line}: {part} differs")
        if keep is not None and (file := text_file(keep, line, part)).exists():
            lines = file.read_text("utf-8").splitlines(), now[part][1].splitlines()
            shown += [
                own[:300] for own in list(difflib.unified_diff(*lines, lineterm="", n=2))[:60]
            ]
    return [*shown, now["result"][1]] if shown and now["result"][1].startswith("failed") else shown


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the digests")
    what.add_argument("--check", action="store_true", help="compare with the digests")
    made.add_argument("--keep", type=Path, help="folder of the texts behind the digests")
    made.add_argument("--only", default="*", help="runs to make, such as '*FedPC*'")
    options = made.parse_args()
    began, environment = time.perf_counter(), {own: version(own) for own in PACKAGES}
    saved = json.loads(DIGESTS.read_text("utf-8")) if DIGESTS.exists() else {}
    if options.check and saved.get("environment") != environment:
        print(f"other packages: {saved.get('environment')}, now {environment}")
    runs, said = saved.get("runs", {}), []
    chosen = [line for line in RUNS if fnmatch(line, options.only)]
    for line in chosen:
        start, now = time.perf_counter(), outcome(line)
        if options.check:
            said += differences(line, now, runs.get(line), options.keep)
            continue
        runs[line] = {part: digest for part, (digest, _) in now.items()}
        print(f"{time.perf_counter() - start:5.1f} s  {line}", flush=True)
        for part, (_, text) in now.items() if options.keep else ():
            text_file(options.keep, line, part).parent.mkdir(parents=True, exist_ok=True)
            text_file(options.keep, line, part).write_text(text, "utf-8")
    if options.write:
        kept = {"environment": environment, "runs": {own: runs[own] for own in RUNS if own in runs}}
        DIGESTS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print("\n".join(said) or f"{len(chosen)} runs, {time.perf_counter() - began:.0f} s")
    return bool(said)


if __name__ == "__main__":
    if any(os.environ.get(name) != "1" for name in THREADS):  # which numpy reads as it is loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **THREADS})
    sys.exit(main())
