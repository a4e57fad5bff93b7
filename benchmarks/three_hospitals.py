"""Three hospitals or four, and a coordinator, as processes of their own from empty folders.

The onboarding commands alone make, enrol and start them; they talk over NVIDIA FLARE with mutual
TLS on the loopback interface, and their policies approve every run by themselves. FedPC (or RFcd,
or Fed-CD) runs masked and then encrypted and must find what a run in one process finds, and every
site must read it by its own names. A run is killed in the middle and the server restarted: the run
goes on to the same graph. Then one hospital is revoked and must be refused, and all files are
searched for private keys.

    python benchmarks/three_hospitals.py [table.csv] [--schema schema.toml] [--rows N]
        [--sites 4] [--out F]
        [--algorithm fedcd --interventions COLUMN --parameters rounds=3 fit_steps=100]
"""

from __future__ import annotations

import contextlib
import signal
import time

from hospital_checks import check_asked_once, check_secrets, interrupted, resumed
from hospitals import (
    Hospitals,
    check_same,
    edges_of,
    parser,
    report,
    share_cores,
    study_of,
    work_folder,
)
from loopback import free_port


def check_interruption(hospitals, study, expected, restart_server):
    """A run is killed without warning, and the server restarted; then the run goes on."""
    last = max(1, hospitals.seconds["masking_rounds"] // 2)
    folder = interrupted(hospitals.coordinator, study.run_words, after_round=last)
    restart_server()
    hospitals.wait_for_sites()
    begun = time.perf_counter()
    found = resumed(folder, hospitals.work / "result-resumed")
    hospitals.seconds["resumed"] = round(time.perf_counter() - begun, 2)
    check_same(found, expected, "resumed")
    check_asked_once(folder, [hospitals.work / name for name in hospitals.sites], found)
    print("a run whose coordinator and server were killed went on to the same graph")


def check_revocation(hospitals, fingerprint):
    """The revoked site is dropped by the running server and not admitted again."""
    gone = hospitals.revoke_last(fingerprint)
    said = hospitals.command("site", "start", "--dir", hospitals.work / gone, code=5)
    assert "did not admit" in said, said
    hospitals.check_shut_out(gone, fingerprint)


def main():
    known = parser(__doc__)
    known.add_argument("--brief", action="store_true", help="kill nothing and revoke nobody")
    options = known.parse_args()
    share_cores()
    study = study_of(options)
    begun = time.perf_counter()
    with work_folder() as work, contextlib.ExitStack() as up:
        address = ("--host", "localhost", "--port", str(free_port()))
        hospitals = Hospitals(work, address, dict.fromkeys(study.tables, address))
        fingerprint = hospitals.enrol(study.tables, study.schema)
        enrolled = time.perf_counter()
        expected = study.in_process(work)
        begun += time.perf_counter() - enrolled
        serve = ("coordinator", "start", "--dir", hospitals.coordinator)
        server = up.enter_context(hospitals.started(*serve))

        def restart_server():
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)
            up.enter_context(hospitals.started(*serve))

        with contextlib.ExitStack() as last:
            for name in hospitals.sites:
                stack = last if name == hospitals.sites[-1] else up
                stack.enter_context(hospitals.started("site", "start", "--dir", work / name))
            hospitals.wait_for_sites()
            hospitals.compare_runs(expected, study)
            if not options.brief:
                check_interruption(hospitals, study, expected, restart_server)
            hospitals.check_audits()
            hospitals.check_own_results(expected)
        if not options.brief:
            check_revocation(hospitals, fingerprint)
        keys, parties = check_secrets(work)
        print(f"{keys} private key files of {', '.join(parties)}, closed to others and not copied")
    hospitals.seconds["all"] = round(time.perf_counter() - begun, 2)
    report(options, hospitals.seconds, len(edges_of(expected)))


if __name__ == "__main__":
    main()
