"""Three hospitals and a coordinator as processes of their own, from empty folders, over FLARE.

The onboarding commands alone make, enrol and start them; they talk over NVIDIA FLARE with mutual
TLS on the loopback interface. FedPC runs masked and then encrypted and must find the graph that a
run in one process finds. Then one hospital is shut out and must be refused.

    python benchmarks/three_hospitals.py [table.csv] [--schema schema.toml] [--rows N] [--out F]
"""

from __future__ import annotations

import contextlib
import time

from hospitals import SITES, Hospitals, in_process, parser, report, tables_of, work_folder

from cipherdag.protocol.engines.nvflare_kit import free_port


def check_revocation(hospitals, fingerprint):
    """The revoked site is dropped by the running server and not admitted again."""
    gone = hospitals.revoke_last(fingerprint)
    said = hospitals.command("site", "start", "--dir", hospitals.work / gone, code=5)
    assert "did not admit" in said, said
    hospitals.check_shut_out(gone, fingerprint)


def main():
    options = parser(__doc__.splitlines()[0]).parse_args()
    tables, schema = tables_of(options)
    expected = in_process(tables, schema)
    begun = time.perf_counter()
    with work_folder() as work, contextlib.ExitStack() as up:
        address = ("--host", "localhost", "--port", str(free_port()))
        hospitals = Hospitals(work, address, dict.fromkeys(SITES, address))
        fingerprint = hospitals.enrol(tables, schema)
        up.enter_context(hospitals.started("coordinator", "start", "--dir", hospitals.coordinator))
        with contextlib.ExitStack() as last:
            for name in SITES:
                stack = last if name == SITES[-1] else up
                stack.enter_context(hospitals.started("site", "start", "--dir", work / name))
            hospitals.wait_for_sites()
            hospitals.compare_runs(expected)
            hospitals.check_audits()
        check_revocation(hospitals, fingerprint)
    hospitals.seconds["all"] = round(time.perf_counter() - begun, 2)
    report(options, hospitals.seconds, len(expected))


if __name__ == "__main__":
    main()
