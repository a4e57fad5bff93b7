"""Three hospitals and a coordinator as processes of their own, from empty folders, over PySyft.

The onboarding commands alone make, enrol and start them. Each hospital computes in this process's
environment, behind a Datasite in PySyft's environment, where the coordinator runs too. FedPC runs
masked and then encrypted and must find the graph that a run in one process finds. Swapped
Datasites, a foreign key and a killed Datasite must be named. Then one hospital is shut out and must
be refused, also by the others when a coordinator takes up the old study again.

    python benchmarks/three_datasites.py --pysyft PYTHON [table.csv] [--schema schema.toml]
        [--rows N] [--out F]
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from pathlib import Path

import psutil
from hospitals import (
    PURPOSE,
    SITES,
    Hospitals,
    edges_of,
    parser,
    report,
    share_cores,
    study_of,
    wait_for,
    work_folder,
)
from loopback import free_port

ENDED = re.compile(r"Datasite has ended")


def study(work, pysyft):
    """A coordinator that connects to the sites, and a Datasite on a port of its own at each."""
    words = {}
    for name in SITES:
        port = str(free_port())
        url = f"http://127.0.0.1:{port}"
        words[name] = ("--datasite", url, "--datasite-port", port, "--pysyft", str(pysyft))
    return Hospitals(work, ("--engine", "syft"), words, python=pysyft)


def check_failures(hospitals):
    """What a person sees when something is wrong: which site, why, what to do, an exit code."""
    altered = hospitals.work / "altered"
    shutil.copytree(hospitals.coordinator, altered)
    first, second = (altered / "sites" / f"{name}.request" for name in SITES[:2])
    one, other = first.read_text("utf-8"), second.read_text("utf-8")
    url = re.compile(r'"datasite": "[^"]*"')
    first.write_text(url.sub(url.search(other).group(), one), "utf-8")
    second.write_text(url.sub(url.search(one).group(), other), "utf-8")
    run = ("coordinator", "run", "fedpc", "--purpose", PURPOSE, "--dir", altered)
    said = hospitals.command(*run, code=4)
    assert f"Datasite of '{SITES[1]}'" in said or f"Datasite of '{SITES[0]}'" in said, said
    first.write_text(one, "utf-8")
    second.write_text(other, "utf-8")
    (altered / "keys" / "datasites.pem").unlink()
    shutil.copy(altered / "keys" / "identity.pem", altered / "keys" / "datasites.pem")
    said = hospitals.command(*run, code=4)
    assert "does not accept this coordinator's key" in said, said
    shutil.rmtree(altered)
    print("swapped Datasites and a foreign key were named, exit code 4")


def check_killed_datasite(hospitals, what, process):
    """A Datasite killed in the middle of a run: the run names its site, and the site its cause."""
    words = ("coordinator", *what.run_words, "--dir", hospitals.coordinator)
    with hospitals.started(*words) as run:
        for line in run.stdout:
            if line.startswith("round 1 "):
                break
        datasite = psutil.Process(process.pid).children()[0]
        datasite.kill()
        said = run.stdout.read()
        assert run.wait(60) == 5, said
    assert f"'{SITES[-1]}'" in said, said
    assert "unreachable" in said, said
    ended = process.communicate(timeout=60)[0]
    assert process.returncode == 5, ended
    assert ENDED.search(ended), ended
    print("a Datasite killed in a run was named at the coordinator and at its site, exit code 5")


def check_revocation(hospitals, fingerprint):
    """The others refuse the old study, which a coordinator might take up again from a copy."""
    old = hospitals.work / "old"
    shutil.copytree(hospitals.coordinator, old)
    gone = hospitals.revoke_last(fingerprint)
    run = ("coordinator", "run", "fedpc", "--purpose", PURPOSE, "--dir", old)
    said = hospitals.command(*run, code=3)
    assert f"the cohort names '{gone}', which is revoked" in said, said
    print(f"the other sites refuse a cohort with '{gone}'")
    hospitals.check_shut_out(gone, fingerprint)


def main():
    given = parser(__doc__)
    given.add_argument("--pysyft", type=Path, required=True, help="interpreter of its environment")
    options = given.parse_args()
    share_cores()
    what = study_of(options)
    begun = time.perf_counter()
    with work_folder() as work, contextlib.ExitStack() as up:
        hospitals = study(work, options.pysyft.absolute())
        fingerprint = hospitals.enrol(what.tables, what.schema)
        enrolled = time.perf_counter()
        expected = what.in_process(work)
        begun += time.perf_counter() - enrolled
        running = {
            name: up.enter_context(hospitals.started("site", "start", "--dir", work / name))
            for name in SITES
        }
        hospitals.wait_for_sites()
        hospitals.compare_runs(expected, what)
        hospitals.check_audits()
        hospitals.check_own_results(expected)
        check_failures(hospitals)
        check_killed_datasite(hospitals, what, running[SITES[-1]])
        up.enter_context(hospitals.started("site", "start", "--dir", work / SITES[-1]))
        wait_for(lambda: list(hospitals.states().values()) == ["connected"] * 3, "the sites")
        check_revocation(hospitals, fingerprint)
    hospitals.seconds["all"] = round(time.perf_counter() - begun, 2)
    report(options, hospitals.seconds, len(edges_of(expected)))


if __name__ == "__main__":
    main()
