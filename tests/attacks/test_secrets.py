"""A whole federation writes all it can; all of it is searched for every secret that was made."""

import base64
import logging
import os
import traceback

import adversary
import hospital_folders
import pytest
from cryptography.hazmat.primitives import serialization
from hospital_checks import PRIVATE, check_secrets, secret_forms

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.errors import CipherdagError
from cipherdag.federation.checkpoint import StartedRun
from cipherdag.federation.connected import ConnectedFederation
from cipherdag.privacy import homomorphic_mac, roundmasks
from cipherdag.privacy.bfvcontext import BfvContext
from cipherdag.privacy.keys import pairkeys
from cipherdag.privacy.keys.identity import DrawKey
from cipherdag.protocol.journal import TranscribingEngine
from cipherdag.protocol.messages import read_envelope
from cipherdag.sites.session import handshake
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.study import new_request, sign_study
from cipherdag.sites.study.study_files import write_file

NAMES = ("north", "south", "west")
WRITTEN = {
    "identity.pem", "ledger.jsonl", "sums.jsonl", "usage.json", "policy.toml", "study.json",
    "north.request", "journal.jsonl", "transcript.jsonl", "started.json", "plan.json",
    "result.json", "run.toml", "graph.graphml",
}  # fmt: skip


class CrashError(Exception):
    """The coordinator's process ends here."""


class Crashing(adversary.RecordingEngine):
    """Crashes at an operation, once."""

    crash_at = ""

    def call(self, operation, messages, *, timeout_s):
        replies = super().call(operation, messages, timeout_s=timeout_s)
        if operation == self.crash_at:
            self.crash_at = ""
            raise CrashError
        return replies


@pytest.fixture
def study(tmp_path):
    """A coordinator's folder and three sites' folders; FLARE's keys are in `test_onboarding`."""
    hospitals = hospital_folders.hospitals(tmp_path, names=NAMES)
    coordinator = CoordinatorFolder(tmp_path / "coordinator")
    for folder in (coordinator.path, coordinator.identity_path.parent, coordinator.runs):
        folder.mkdir(mode=0o700)
    hospitals.coordinator.save(coordinator.identity_path)
    write_file(coordinator.study_path, sign_study(hospitals.coordinator, hospitals.study))
    for name, folder in hospitals.folders.items():
        request = new_request(
            folder.identity(),
            name=name,
            organisation="site",
            study="study",
            certificate_request=b"zip",
            versions={},
        )
        write_file(folder.path / f"{name}.request", request)
    return tmp_path, coordinator, hospitals.folders


@pytest.fixture
def made(monkeypatch):
    """Every secret of a session, by what it is, as the code that makes it makes it."""
    secrets = {}

    def keep(kind, content):
        secrets[f"{kind} {len(secrets)}"] = bytes(content)

    def watch(owner, name, found):
        original = getattr(owner, name)

        def watching(*given, **named):
            result = original(*given, **named)
            found(result, *given)
            return result

        monkeypatch.setattr(owner, name, watching)

    def of_ephemeral(_, keys, x25519, mlkem):
        keep("x25519 private", x25519.private_bytes_raw())
        keep("ml-kem private", mlkem.private_bytes_raw())

    def of_shared(_, body):
        if hasattr(body, "alignment_key"):
            keep("alignment key", body.alignment_key)
            keep("context key", body.context_key)
            keep("sum key", body.sum_key)

    def of_context(content, _):
        for start in range(0, len(content) - 64, 1 << 12):
            window = content[start : start + 64]
            if len(set(window)) > 20:
                keep("bfv secret", window)

    watch(DrawKey, "__init__", lambda _, key, content: keep("draw key", content))
    watch(pairkeys.PairKey, "__init__", lambda _, key, content: keep("pair key", content))
    watch(pairkeys.EphemeralKeys, "__init__", of_ephemeral)
    watch(handshake, "encode", of_shared)
    watch(BfvContext, "secret_bytes", of_context)
    watch(roundmasks.RoundMasks, "mask", lambda _, own, *__: keep("self mask", own._self_seed))
    watch(homomorphic_mac, "expand", lambda key, *_: keep("tag stream", key))
    watch(roundmasks, "derive_each", lambda seeds, *_: [keep("pair mask", own) for own in seeds])
    return secrets


KINDS = {
    "masking": {"pair key", "x25519 private", "ml-kem private", "alignment key", "context key",
                "self mask", "pair mask", "sum key", "tag stream", "draw key"},
    "bfv": {"pair key", "x25519 private", "ml-kem private", "alignment key", "context key",
            "self mask", "pair mask", "bfv secret", "sum key", "tag stream", "draw key"},
}  # fmt: skip


def forms(secret):
    return {
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        base64.b64encode(secret).rstrip(b"="),
        base64.urlsafe_b64encode(secret).rstrip(b"="),
        repr(secret)[2:-1].encode(),
        str(int.from_bytes(secret, "big")).encode(),
        str(int.from_bytes(secret, "little")).encode(),
        ", ".join(map(str, secret)).encode(),
    }


@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_no_secret_is_in_any_file_log_exception_or_repr(study, made, caplog, capfd, protection):
    if protection == "bfv":
        pytest.importorskip("tenseal")
    root, coordinator, sites = study
    caplog.set_level(logging.DEBUG, logger="cipherdag")
    shown = []
    kept = {name: KeptSite(site.path) for name, site in sites.items()}
    try:
        engine = Crashing({name: site.handle for name, site in kept.items()})
        federation = ConnectedFederation(coordinator, protection=protection, purpose="a test")
        folder = federation._new_run()
        plan = federation.plan(FedPC(evidence="vote", alpha=0.05))
        started = StartedRun(plan, {})
        started.write(folder)
        transcribed = TranscribingEngine(engine, folder / "transcript.jsonl")
        for engine.crash_at in ("unmask", "ask"):
            with pytest.raises(CrashError) as crash:
                federation.learn(transcribed, folder, started, None)
            shown += traceback.format_exception(crash.value)
        shown += [repr((site, site._open)) for site in kept.values()]
        shown += [repr(site._open._current) for site in kept.values()]
        result = federation.learn(transcribed, folder, started, None)
        result.save(root / f"result-{protection}")
        shown.append(repr((result, federation, engine, FedPC(evidence="vote"), coordinator, sites)))
        shown += refusals(kept, engine)
    finally:
        for site in kept.values():
            os.close(site.held)
    assert {name.rpartition(" ")[0] for name in made} == KINDS[protection]
    shown += [caplog.text, *capfd.readouterr()]
    texts = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert {path.name for path in texts} > WRITTEN
    everything = b"\n".join([*texts.values(), "\n".join(shown).encode()])
    carried = b"".join(message for _, _, message in engine.sent + engine.received)
    for name, secret in made.items():
        assert not any(form in everything for form in forms(secret)), name
        # the seed of a round's self mask is released to open its sum; nothing else ever travels
        assert name.startswith("self mask") or secret not in carried, name


def refusals(kept, engine):
    """What sites say to every message of the run when it comes again, changed or out of step."""
    said = []
    for operation, site, message in engine.sent:
        flipped = message[:-1] + bytes([message[-1] ^ 1])
        replies = [kept[site].handle(operation, m) for m in (message, flipped, message[:99])]
        # nothing comes once a site has refused too often in a minute
        said += [repr(r) for r in replies if r and read_envelope(r).topic == "refusal"]
    for site in kept.values():
        with pytest.raises(CipherdagError) as refusal:
            KeptSite(site._site.path, lock_wait_s=0.0)
        said += traceback.format_exception(refusal.value)
    return said


def test_every_identity_key_lies_in_one_closed_file(study):
    root, coordinator, sites = study
    count, parties = check_secrets(root)
    assert (count, parties) == (4, ["coordinator", *NAMES])
    for site in sites.values():
        assert site.private_keys == (site.identity_path,)
    assert PRIVATE.search(coordinator.identity_path.read_bytes())


@pytest.mark.parametrize("how", ["open", "copied", "logged", "elsewhere"])
def test_a_key_that_leaked_would_be_found(study, how):
    """The search itself is tested: a leak of each kind is planted and must be noticed."""
    root, _, sites = study
    north = sites["north"]
    key = north.identity_path.read_bytes()
    raw = serialization.load_pem_private_key(key, password=None).private_bytes_raw()
    assert raw in secret_forms(key)
    if how == "open":
        north.identity_path.chmod(0o644)
    if how == "copied":
        (north.path / "notes.txt").write_bytes(b"x" + key)
    if how == "logged":
        (north.path / "site.log").write_text(f"key={raw.hex()}")
    if how == "elsewhere":
        sites["south"].identity_path.write_bytes(key)
    with pytest.raises(SystemExit):
        check_secrets(root)
