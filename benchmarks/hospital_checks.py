"""What is checked of hospitals that run as processes: a crash in the middle, and where secrets lie.

The parts of `three_hospitals.py` that look at the outcome and not at how the sites came up.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from cipherdag.protocol.plan import Plan
from cipherdag.sites.record.ledger import answers, ledger_lines, read_releases

PRIVATE = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+([A-Za-z0-9+/=\s]+)-----END [A-Z ]*PRIVATE KEY-----"
)
BITS_OF_OTHERS = 0o077


def interrupted(coordinator, run_words, *, after_round):
    """Kill a run without warning once a round has ended; returns the run's folder."""
    words = ["coordinator", *run_words, "--dir", str(coordinator)]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "cipherdag", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith(f"round {after_round} "):
                break
        else:
            raise SystemExit("the run ended before it could be interrupted:\n" + "".join(said))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (folder,) = [line.split("--resume ")[1].strip() for line in said if "--resume" in line]
    return Path(folder)


def resumed(folder, out):
    """Go on with the run by the command that it printed; returns its report."""
    words = ["coordinator", "run", "--resume", str(folder), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "cipherdag", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        raise SystemExit(f"the run could not be resumed:\n{done.stdout}{done.stderr}")
    return json.loads((out / "result.json").read_text("utf-8"))


def session_of(folder):
    """The session of a run, from its journal."""
    first = json.loads((folder / "journal.jsonl").read_text("utf-8").splitlines()[0])
    return msgspec.convert(first["plan"], Plan).session.hex()


def check_asked_once(folder, sites, report):
    """Every site answered every round of the run once, whatever happened to the coordinator.

    A round of secure tests that was cut short is begun anew, once, and has a number of its own. So
    has one in which sites told what an earlier run had found.
    """
    session = session_of(folder)
    entries = map(json.loads, (folder / "journal.jsonl").read_text("utf-8").splitlines())
    recalled = sum(bool(entry.get("known")) for entry in entries)
    if report["dropouts"]:
        raise SystemExit(f"a site was left out: {report['dropouts']}")
    for site in sites:
        lines = ledger_lines((site / "ledger.jsonl").read_text("utf-8"))
        shares = [
            release
            for release in read_releases(lines)
            if release.session == session and answers(release.kind)
        ]
        rounds = [release.round for release in shares]
        cut_short = len(rounds) - report["rounds"] - recalled
        if cut_short not in (0, 1) or rounds != list(range(1, len(rounds) + 1)):
            raise SystemExit(f"{site.name} answered rounds {rounds} of {report['rounds']}")
        if len({release.digest for release in shares}) != len(shares):
            raise SystemExit(f"{site.name} answered a question twice")


def check_every_byte(folder, site, received):
    """What the coordinator's engine brought from a site is what its ledger says, to the byte."""
    session = session_of(folder)
    lines = ledger_lines((site / "ledger.jsonl").read_text("utf-8"))
    recorded = sum(own.bytes for own in read_releases(lines) if own.session == session)
    if recorded != received:
        raise SystemExit(f"{site.name} recorded {recorded} bytes, and {received} came from it")


def check_secrets(work):
    """Every private key lies in key files of mode 0600 and nowhere else; returns their number.

    Session keys never leave the memory of the sites' processes, so that no file can be searched
    for them here; ``tests/attacks/test_secrets.py`` does that where it can see them.
    """
    contents = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    holders = [path for path, content in contents.items() if PRIVATE.search(content)]
    for path in holders:
        if path.suffix not in (".pem", ".key"):
            raise SystemExit(f"{path} holds a private key and is no key file")
        if path.stat().st_mode & BITS_OF_OTHERS:
            raise SystemExit(f"{path} is open to others")
    secrets = set()
    for path in holders:
        secrets.update(secret_forms(contents[path]))
    for path, content in contents.items():
        if path not in holders and any(secret in content for secret in secrets):
            raise SystemExit(f"{path} holds a part of a private key")
    parties = {path.relative_to(work).parts[0] for path in holders}
    for path in holders:
        own = path.relative_to(work).parts[0]
        for other in holders:
            if other.relative_to(work).parts[0] != own and contents[other] == contents[path]:
                raise SystemExit(f"{other} is the key of {own}")
    return len(holders), sorted(parties)


def secret_forms(pem):
    """What to look for of a private key file: its body, and its numbers in several writings."""
    body = b"".join(PRIVATE.search(pem).group(1).split())
    raws = [base64.b64decode(body)]
    key = serialization.load_pem_private_key(pem, password=None)
    if isinstance(key, EllipticCurvePrivateKey):
        raws.append(key.private_numbers().private_value.to_bytes(32, "big"))
    else:
        raws.append(key.private_bytes_raw())
    forms = {body, body[:64], body[-64:]}
    for raw in raws:
        coded = base64.b64encode(raw).rstrip(b"=")
        forms |= {raw, raw.hex().encode(), raw.hex().upper().encode(), coded}
    return forms
