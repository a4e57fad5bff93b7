"""Running servers and clients of NVIDIA FLARE, from their start-up kits.

Leaks:
    Nothing: a process has the environment and files that it is given.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

import psutil

from cipherdag.errors import ParameterError, writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cipherdag.protocol.engines.nvflare_kit import Kit

SERVER_MODULE = "nvflare.private.fed.app.server.server_train"
CLIENT_MODULE = "cipherdag.protocol.engines.nvflare_site"


class KitProcess:
    """A running FLARE server or client with the job processes it starts; a context manager.

    Args:
        kit: The kit of a server or a site.
        environment: Environment variables of the process; this process's own by default.

    Raises:
        ParameterError: The coordinator's kit starts no process.
    """

    def __init__(self, kit: Kit, *, environment: Mapping[str, str] | None = None) -> None:
        if kit.party.role == "admin":
            raise ParameterError("a coordinator's kit starts no process")
        self._folder = kit.folder.resolve()
        if kit.party.role == "server":
            _place_storage(self._folder)
        console = kit.folder / "console.log"
        with writing(console):
            self._console = console.open("ab")
        # its own session, so that a Ctrl-C in the terminal does not reach it
        self._process = subprocess.Popen(  # noqa: S603 - fixed words and the kit's own names
            _command(kit, self._folder),
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            cwd=kit.folder,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the process itself lives."""
        return self._process.poll() is None

    def stop(self, *, grace_s: float = 3.0) -> None:
        """End the process and its job processes: asked first, killed after ``grace_s``."""
        family = _family(self._folder)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, left = psutil.wait_procs(family, timeout=grace_s)
        self._end(left)

    def kill(self) -> None:
        """End everything at once, as a power cut does."""
        self._end(_family(self._folder))

    def _end(self, family: Sequence[Any]) -> None:
        # a dying parent may start a last job process, so look again until there is none
        for _ in range(10):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            family = _family(self._folder)
            if not family:
                break
            time.sleep(0.1)
        self._console.close()


def _command(kit: Kit, folder: Path) -> list[str]:
    server = kit.party.role == "server"
    words = ["secure_train=true", "config_folder=config", f"org={kit.party.organisation}"]
    if not server:
        words += [f"uid={kit.party.name}", "heart_beat_interval=5.0"]
    return [
        sys.executable,
        "-u",
        "-m",
        SERVER_MODULE if server else CLIENT_MODULE,
        "-m",
        str(folder),
        "-s",
        "fed_server.json" if server else "fed_client.json",
        "--set",
        *words,
    ]


def _family(folder: Path) -> list[Any]:
    """The processes that run this very kit, its job processes included.

    Job processes have sessions of their own and outlive a killed parent; the kit's folder among
    their arguments is what they keep.
    """
    family = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if str(folder) in words and "-m" in words and process.pid != os.getpid():
                family.append(process)
    return family


def _place_storage(kit: Path) -> None:
    """Have the server keep its jobs in its kit, wherever the kit stands now.

    FLARE's default is one folder under /tmp for all studies and users of a machine.
    """
    path = kit / "local" / "resources.json"
    limits = json.loads(path.read_text("utf-8"))
    snapshots = str(kit / "storage" / "snapshots")
    limits["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = snapshots
    for part in limits["components"]:
        if part["id"] == "job_manager":
            part["args"]["uri_root"] = str(kit / "storage" / "jobs")
    with writing(path):
        path.write_text(json.dumps(limits, indent=2) + "\n", "utf-8")
