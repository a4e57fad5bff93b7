"""The comparisons of `mpc_kernel.py` by other engines, each in a separate environment.

    python -m venv ENV && ENV/bin/pip install mpyc numpy      (or: spu)
    ENV/bin/python benchmarks/mpc_peers.py mpyc|spu --out FILE.json [--count 11000] [--repeats 3]

"U^2 > W + K" of so many components, at the threshold for half, over sums that are shared already;
every bit is opened. It needs nothing of cipherdag. `mpyc` is asked for three parties that share by
Shamir, each a process; `spu` for three parties by ABY3 and two by SEMI2K, each a thread. Both are
secure against parties that keep to the protocol.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

CONSTANT = 6 * 16**2
LARGEST = 20_000
WIDTH = 31


def sums(count, seed):
    """Scores and variances, and the bits."""
    rng = np.random.default_rng(seed)
    U = rng.integers(-LARGEST, LARGEST + 1, count)
    W = np.clip(U**2 - CONSTANT - rng.integers(-3, 4, count), 0, None)
    far = rng.random(count) < 0.5
    W[far] = rng.integers(0, LARGEST**2, int(far.sum()))
    return U, W, U**2 - W - CONSTANT > 0


def of_mpyc(count, repeats):
    """Figures of three processes; each runs `inside_mpyc`."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"COUNT": str(count), "REPEATS": str(repeats), "INTO": folder}
        command = [sys.executable, __file__, "inside-mpyc", "-M3", "--no-log"]
        subprocess.run(command, env=environment, check=True, timeout=1800)
        deadline = time.monotonic() + 60
        while len(list(Path(folder).glob("*.json"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)  # the other parties may take longer to end
        found = [json.loads(item.read_text("utf-8")) for item in Path(folder).glob("*.json")]
    per = [sum(item["cpu"][k] for item in found) / count for k in range(repeats)]
    return [{
        "engine": f"mpyc {version('mpyc')}, Shamir", "parties": 3, "comparisons": count,
        "wrong": max(item["wrong"] for item in found),
        "cpu_us": 1e6 * statistics.median(per),
        "bytes": sum(item["bytes"][-1] for item in found) / count,
        "sends": "not counted",
    }]  # fmt: skip


def inside_mpyc():
    """One party of three."""
    from mpyc.runtime import mpc

    count, repeats = int(os.environ["COUNT"]), int(os.environ["REPEATS"])

    def sent():
        others = [peer for peer in mpc.parties if peer.pid != mpc.pid]
        return sum(peer.protocol.nbytes_sent for peer in others)

    async def party():
        secint = mpc.SecInt(WIDTH)
        said = {"cpu": [], "bytes": [], "wrong": 0}
        await mpc.start()
        for seed in range(repeats):
            U, W, wanted = sums(count, seed)
            u = mpc.input(secint.array(U), senders=0)
            w = mpc.input(secint.array(W), senders=0)
            await mpc.barrier()
            bytes_before, cpu = sent(), time.process_time()
            bits = await mpc.output(u * u - w - (CONSTANT + 1) >= 0)
            said["cpu"].append(time.process_time() - cpu)
            said["bytes"].append(sent() - bytes_before)
            said["wrong"] += int((np.array([int(item) for item in bits]) != wanted).sum())
        into = Path(os.environ["INTO"]) / f"{mpc.pid}.json"
        into.with_suffix(".part").write_text(json.dumps(said), "utf-8")
        into.with_suffix(".part").rename(into)
        await mpc.shutdown()

    mpc.run(party())


def of_spu(count, repeats):
    """Figures of both protocols; each in a process whose profile is read."""
    return [_one_protocol(name, count, repeats) for name in ("ABY3", "SEMI2K")]


def _one_protocol(name, count, repeats):
    command = [sys.executable, __file__, "inside-spu", "--protocol", name]
    command += ["--count", str(count), "--repeats", str(repeats)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    said = json.loads(done.stdout.splitlines()[-1])
    link = re.compile(r"Link details: total send bytes (\d+), .*send actions (\d+)")
    sent, actions = link.findall(done.stdout + done.stderr)[-1]
    return {
        "engine": f"spu {version('spu')}, {name}", "parties": said["parties"],
        "comparisons": count, "wrong": said["wrong"],
        "cpu_us": 1e6 * statistics.median(said["cpu"]) / count,
        "bytes": int(sent) * said["parties"] / count, "sends": f"{actions} a party",
    }  # fmt: skip


def inside_spu(name, count, repeats):
    """All parties as threads; the first run compiles and is not counted."""
    import jax
    import spu.libspu as spu
    from spu.utils import simulation

    jax.config.update("jax_enable_x64", True)
    parties = 3 if name == "ABY3" else 2
    config = spu.RuntimeConfig(protocol=getattr(spu.ProtocolKind, name), field=spu.FieldType.FM64)
    config.enable_pphlo_profile = True
    simulator = simulation.Simulator(parties, config)
    compared = simulation.sim_jax(simulator, lambda u, w: u * u - w > CONSTANT)
    cpu, wrong = [], 0
    for seed in range(repeats + 1):
        U, W, wanted = sums(count, seed)
        before = time.process_time()
        found = compared(U, W)
        cpu.append(time.process_time() - before)
        wrong += int((np.asarray(found) != wanted).sum())
    print("\n" + json.dumps({"cpu": cpu[1:], "wrong": wrong, "parties": parties}), flush=True)


def main():
    if "inside-mpyc" in sys.argv:  # mpyc starts the other parties with the same arguments
        inside_mpyc()
        return
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("engine", choices=("mpyc", "spu", "inside-spu"))
    options.add_argument("--out", type=Path)
    options.add_argument("--count", type=int, default=11_000)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--protocol", default="ABY3")
    arguments = options.parse_args()
    if arguments.engine == "inside-spu":
        inside_spu(arguments.protocol, arguments.count, arguments.repeats)
        return
    found = (of_mpyc if arguments.engine == "mpyc" else of_spu)(arguments.count, arguments.repeats)
    print(json.dumps(found, indent=1))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
