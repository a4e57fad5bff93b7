"""Serves the live view of a run over three sites that talk through NVIDIA FLARE."""

import contextlib
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from hospitals import SITES, Hospitals, parser, study_of, work_folder
from loopback import free_port

if __name__ == "__main__":
    study = study_of(parser(__doc__).parse_args([]))
    with work_folder() as work, contextlib.ExitStack() as up:
        address = ("--host", "localhost", "--port", str(free_port()))
        hospitals = Hospitals(work, address, dict.fromkeys(SITES, address))
        hospitals.enrol(study.tables, study.schema)
        up.enter_context(hospitals.started("coordinator", "start", "--dir", hospitals.coordinator))
        for name in SITES:
            up.enter_context(hospitals.started("site", "start", "--dir", work / name))
        hospitals.wait_for_sites()
        run = subprocess.Popen(
            hospitals._line(
                ("coordinator", *study.run_words, "--dir", hospitals.coordinator, "--live")
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = run.stderr.readline()
        print(said.split()[-1], flush=True)  # noqa: T201
        rest = run.communicate()[1]
        if run.returncode:
            sys.exit(f"{said}{rest}")
