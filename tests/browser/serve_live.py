"""Serves the live view of a real run, slow enough to follow, once a page has opened it."""

import math
import time

import numpy as np

from cipherdag import Federation, FedPC
from cipherdag.cli.live import LiveRun, LiveServer
from cipherdag.graphs.networks import asia

PAUSE_S = 0.6
PATIENCE_S = 120.0


def slowly(report):
    time.sleep(PAUSE_S)


if __name__ == "__main__":
    data = asia().sample(4000, np.random.default_rng(1))
    federation = Federation.split(data, 3, seed=1)
    live = LiveRun()
    watching = live.watching(slowly, federation.sites[0].table.names)
    with LiveServer(live) as server:
        print(server.address, flush=True)  # noqa: T201
        until = time.monotonic() + PATIENCE_S
        while live.read == -math.inf and time.monotonic() < until:
            time.sleep(0.05)
        federation.run(FedPC(), progress=watching)
