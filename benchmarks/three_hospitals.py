"""Three hospitals and a coordinator as processes of their own, from empty folders.

The onboarding commands alone make, enrol and start them; they talk over NVIDIA FLARE with mutual
TLS on the loopback interface. FedPC (or RFcd) runs masked and then encrypted and must find the
graph that a run in one process finds. Then one hospital is shut out and must be refused.

    python benchmarks/three_hospitals.py [table.csv] [--schema schema.toml] [--rows N] [--out F]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from cipherdag.algorithms.fedpc import FedPC
from cipherdag.algorithms.rfcd import RFcd
from cipherdag.connected import RESULT_FILE
from cipherdag.federation import Federation
from cipherdag.networks import asia
from cipherdag.protocol.engines.nvflare_kit import free_port
from cipherdag.sites.schema import Schema
from cipherdag.sites.splitting import split_rows

SITES = ("north", "south", "west")
FINGERPRINT = re.compile(r"fingerprint\s+([0-9A-F:]{95})")
START_S = 40.0


ALGORITHMS = {"fedpc": FedPC(), "rfcd": RFcd()}


def command(*words, code=0):
    """Run one cipherdag command; its exit code must be ``code``."""
    done = subprocess.run(
        [sys.executable, "-m", "cipherdag", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode != code:
        raise SystemExit(
            f"cipherdag {' '.join(map(str, words))} gave {done.returncode}, "
            f"not {code}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr


@contextlib.contextmanager
def started(*words):
    """A cipherdag command that runs until it is told to stop."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cipherdag", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def enrol(work, tables, schema, port):
    """A coordinator and the sites in empty folders, by the commands that people use."""
    coordinator = work / "coordinator"
    said = command(
        "coordinator",
        "new",
        "--dir",
        coordinator,
        "--study",
        "study",
        "--host",
        "localhost",
        "--port",
        port,
    )
    own = FINGERPRINT.search(said).group(1)
    requests, fingerprints = [], []
    for name, table in tables.items():
        site = work / name
        command(
            "site",
            "new",
            name,
            "--dir",
            site,
            "--study",
            "study",
            "--host",
            "localhost",
            "--port",
            port,
            "--device",
            "cpu",
        )
        table.to_csv(site / "data.csv", index=False)
        (site / "schema.toml").write_text(schema.dumps(), encoding="utf-8")
        said = command("site", "request", "--dir", site)
        requests.append(site / f"{name}.request")
        fingerprints += ["--fingerprint", FINGERPRINT.search(said).group(1)]
    command("coordinator", "approve", *requests, *fingerprints, "--dir", coordinator)
    for name in tables:
        activate(work, name, own)
    return coordinator, own


def activate(work, name, fingerprint):
    approval = work / "coordinator" / "approvals" / f"{name}.approval"
    command("site", "activate", approval, "--fingerprint", fingerprint, "--dir", work / name)


def learn(work, coordinator, protection, seconds, algorithm):
    """One run over the processes; the graph as edges between identifiers."""
    out = work / f"result-{protection}"
    begun = time.perf_counter()
    command(
        "coordinator",
        "run",
        algorithm,
        "--dir",
        coordinator,
        "--protection",
        protection,
        "--out",
        out,
    )
    seconds[protection] = round(time.perf_counter() - begun, 2)
    report = json.loads((out / "result.json").read_text("utf-8"))
    seconds[f"{protection}_rounds"] = report["rounds"]
    seconds[f"{protection}_in_run"] = report["seconds"]
    return by_identifier(report)


def in_process(tables, schema, algorithm):
    """The same run in this process, by identifier."""
    result = Federation.simulate(dict(tables), schema=schema, device="cpu").run(algorithm)
    return by_identifier(result.to_dict())


def by_identifier(report):
    """The edges between identifiers; an undirected one has no first end."""
    return {
        (frozenset if edge["mark"] == "---" else tuple)((edge["from_id"], edge["to_id"]))
        for edge in report["edges"]
    }


def wait_for(condition, what):
    deadline = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"timed out waiting for {what}")
        time.sleep(0.5)


def states(coordinator):
    said = subprocess.run(
        [
            sys.executable,
            "-m",
            "cipherdag",
            "coordinator",
            "sites",
            "--live",
            "--json",
            "--dir",
            str(coordinator),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if said.returncode:
        return {}
    return {row["site"]: row["state"] for row in json.loads(said.stdout)["sites"]}


def check_audits(work, coordinator):
    """Every site's exported ledger agrees with what the coordinator received."""
    run = max((coordinator / "runs").iterdir())
    for name in SITES:
        exported = work / f"{name}.jsonl"
        command("audit", "export", work / name, "--out", exported)
        command("audit", "verify", run, "--ledger", exported)
    said = command(
        "site",
        "result",
        run / RESULT_FILE,
        "--dir",
        work / SITES[0],
        "--out",
        work / "named",
    )
    assert "--" in said
    assert "Run " in command("site", "releases", "--dir", work / SITES[0])


def check_revocation(work, coordinator, fingerprint):
    """The revoked site is dropped and not admitted again; too few sites are left for a run."""
    gone, rest = SITES[-1], SITES[:-1]
    command("coordinator", "revoke", gone, "--dir", coordinator)
    for name in rest:
        activate(work, name, fingerprint)
    wait_for(lambda: states(coordinator).get(gone) == "revoked", "the site to be dropped")
    said = command("site", "start", "--dir", work / gone, code=5)
    assert "did not admit" in said, said
    now = states(coordinator)
    assert now[gone] == "revoked", now
    assert all(now[name] == "connected" for name in rest), now
    said = command("coordinator", "run", "fedpc", "--dir", coordinator, code=3)
    assert "asks for 3" in said, said
    command(
        "site",
        "activate",
        coordinator / "approvals" / f"{rest[0]}.approval",
        "--fingerprint",
        fingerprint,
        "--dir",
        work / gone,
        code=3,
    )


def tables_of(path, schema_path, rows):
    if path is None:
        data = asia().sample(rows, np.random.default_rng(1))
    else:
        data = pd.read_csv(path, dtype=str).head(rows)
    schema = Schema.load(schema_path) if schema_path else Schema.infer(data)
    parts = split_rows(len(data), len(SITES), rng=np.random.default_rng(0))
    return {name: data.iloc[part] for name, part in zip(SITES, parts, strict=True)}, schema


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", type=Path, help="CSV; ASIA is sampled if absent")
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), default="fedpc")
    parser.add_argument("--out", type=Path, help="file for the figures, JSON")
    options = parser.parse_args()
    tables, schema = tables_of(options.table, options.schema, options.rows)
    expected = in_process(tables, schema, ALGORITHMS[options.algorithm])
    seconds = {"edges": len(expected)}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="hospitals-") as folder, contextlib.ExitStack() as up:
        work = Path(folder)
        coordinator, fingerprint = enrol(work, tables, schema, free_port())
        seconds["onboarding"] = round(time.perf_counter() - begun, 2)
        up.enter_context(started("coordinator", "start", "--dir", coordinator))
        with contextlib.ExitStack() as last:
            for name in SITES:
                stack = last if name == SITES[-1] else up
                stack.enter_context(started("site", "start", "--dir", work / name))
            wait_for(lambda: list(states(coordinator).values()) == ["connected"] * 3, "the sites")
            for name in SITES:
                checked = command("site", "check", "--dir", work / name)
                assert "fail" not in checked, checked
            for protection in ("masking", "bfv"):
                found = learn(work, coordinator, protection, seconds, options.algorithm)
                if found != expected:
                    raise SystemExit(f"{protection}: {found ^ expected} differs")
                print(f"{protection}: the same {len(found)} edges as in one process")
            check_audits(work, coordinator)
            print("every ledger agrees with the coordinator's transcript")
        check_revocation(work, coordinator, fingerprint)
        print(f"'{SITES[-1]}' was revoked and is refused")
    seconds["all"] = round(time.perf_counter() - begun, 2)
    print(json.dumps(seconds))
    if options.out:
        options.out.write_text(json.dumps({"cpus": os.cpu_count(), **seconds}, indent=2) + "\n")


if __name__ == "__main__":
    main()
