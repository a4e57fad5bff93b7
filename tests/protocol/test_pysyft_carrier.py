"""PySyft 0.10 as the carrier of a study over files, by the service that it ships for tests.

Skipped where the extra 'pysyft' is not installed, unless CIPHERDAG_REQUIRE_SYFT is set.
"""

import contextlib
import os
import threading
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from files_share import SITES

from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.deployment.processes import start
from cipherdag.errors import SiteNotReadyError
from cipherdag.federation.simulated import Federation
from cipherdag.graphs.networks import asia
from cipherdag.protocol.engines import pysyft_carrier
from cipherdag.protocol.engines.folder import TO_COORDINATOR, TO_SITE
from cipherdag.protocol.engines.pysyft_carrier import Peer, PySyftCarrier, check_version, mirror
from cipherdag.results.site_result import site_result
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings

CUTS = (0, 1800, 3500, 6000)
MESSAGE = "1795698912345-3-" + "0" * 64 + ".sealed"


def email(name):
    return f"{name}@example.org"


@pytest.fixture
def peers(tmp_path):
    """A coordinator and three sites as PySyft's peers, which nothing but its test service joins."""
    if not os.environ.get("CIPHERDAG_REQUIRE_SYFT"):
        pytest.importorskip("syft", reason="needs the extra 'pysyft'")
    from syft.sync.connections.drive import mock_drive_service as drive
    from syft.sync.connections.drive.gdrive_transport import GDriveConnection
    from syft.sync.syftbox_manager import SyftboxManager, SyftboxManagerConfig

    store, made = drive.MockDriveBackingStore(), {}
    for name in ("coordinator", *SITES):
        config = SyftboxManagerConfig._base_config_for_testing(
            email=email(name),
            syftbox_folder=tmp_path / "boxes" / name,
            write_files=True,
            has_do_role=True,
            has_ds_role=True,
            use_in_memory_cache=False,
        )
        made[name] = SyftboxManager.from_config(config)
        service = drive.MockDriveService(store, email(name))
        made[name]._add_connection(GDriveConnection.from_service(email(name), service))
        made[name].peer_manager.write_own_version()
    return made


def carriers(peers, tmp_path):
    """The carrier of every end, and the folder of files of every site."""
    share = tmp_path / "share"
    at_sites = {name: tmp_path / "at" / name / name for name in SITES}
    for folder in (share, *at_sites.values()):
        folder.mkdir(parents=True)
    known = [Peer(email(name), share / name) for name in SITES]
    made = {
        "coordinator": PySyftCarrier(peers["coordinator"], known, study="study", outgoing=TO_SITE)
    }
    for name, folder in at_sites.items():
        for direction in (TO_SITE, TO_COORDINATOR):
            (folder / direction).mkdir()
        other = [Peer(email("coordinator"), folder)]
        made[name] = PySyftCarrier(peers[name], other, study="study", outgoing=TO_COORDINATOR)
    return share, at_sites, made


@pytest.mark.filterwarnings("ignore")
def test_pysyft_carries_a_run_between_three_sites(peers, tmp_path, monkeypatch):
    monkeypatch.setattr(pysyft_carrier, "PAUSE_S", 0.05)
    share, at_sites, carried = carriers(peers, tmp_path)
    coordinator = CoordinatorFolder.create(
        tmp_path / "coordinator", study="study", engine="files", files=str(share)
    )
    patients = asia().sample(6000, np.random.default_rng(1))[["Smoking", "LungCancer", "XRay"]]
    tables = {n: patients[slice(*at)] for n, at in zip(SITES, pairwise(CUTS), strict=True)}
    schema, sites = infer_schema(list(tables.values())), {}
    policy = Policy(algorithms=frozenset({"fedpc"}), approve_runs="automatic")
    for name, table in tables.items():
        settings = SiteSettings(name=name, files=str(at_sites[name]), device="cpu")
        sites[name] = SiteFolder.create(tmp_path / name, settings, policy)
        table.to_csv(sites[name].path / "data.csv", index=False)
        (sites[name].path / "schema.toml").write_text(schema.dumps(), encoding="utf-8")
    approvals = coordinator.approve([request_enrolment(site)[0] for site in sites.values()])
    for name, site in sites.items():
        activate(site, approvals[name], code=coordinator.fingerprint)
    stop = threading.Event()
    works = [carrier.run for carrier in carried.values()]
    works += [lambda stopped, own=site: start(own, stopped=stopped) for site in sites.values()]
    with contextlib.ExitStack() as up:
        for work in works:
            thread = threading.Thread(target=work, kwargs={"stopped": stop.wait})
            thread.start()
            up.callback(thread.join)
        up.callback(stop.set)
        federation = Federation.connect(coordinator.path, purpose="a test", timeout_s=300)
        learnt = federation.run(FedPC())
    expected = Federation.simulate(tables).run(FedPC()).finding.graph
    for site in sites.values():
        assert site_result(site).finding.graph.edges == expected.edges
    assert len(learnt.finding.graph.edges) == len(expected.edges) > 1
    drive = peers["north"]._connection_router.connections[0].drive_service._backing_store
    assert drive.files
    assert not any(b"a test" in file.content for file in drive.files.values())


@pytest.mark.filterwarnings("ignore")
def test_a_message_older_than_the_acquaintance_of_its_ends_arrives(peers, tmp_path):
    share, at_sites, carried = carriers(peers, tmp_path)
    for name in SITES:
        (share / name / TO_SITE).mkdir(parents=True)
        (share / name / TO_SITE / MESSAGE).write_bytes(name.encode())
    for carrier in carried.values():
        carrier.allow()
    for _ in range(4):
        for carrier in carried.values():
            carrier.carry()
    for name, folder in at_sites.items():
        assert (folder / TO_SITE / MESSAGE).read_bytes() == name.encode()


@pytest.mark.filterwarnings("ignore")
def test_a_site_agrees_to_its_coordinator_and_to_nobody_else(peers, tmp_path):
    _, _, carried = carriers(peers, tmp_path)
    peers["west"].add_peer(email("north"), sync=False, verbose=False)
    for carrier in carried.values():
        carrier.allow()
    for _ in range(3):
        for carrier in carried.values():
            carrier.carry()
    assert [peer.email for peer in peers["north"].peer_manager.approved_peers] == [
        email("coordinator")
    ]


def test_what_pysyft_raises_is_tried_again(tmp_path, caplog):
    class Broken:
        email, syftbox_folder = "me@example.org", tmp_path
        peer_manager = SimpleNamespace(approved_peers=[])

        def sync(self):
            raise RuntimeError("Drive says no")

    peer = Peer("you@example.org", tmp_path / "north")
    PySyftCarrier(Broken(), [peer], study="study", outgoing=TO_SITE).carry()
    assert "trying again: RuntimeError" in caplog.text


def test_a_mirror_has_the_messages_of_its_source_and_no_other_file(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    mirror(source, target)
    assert not target.exists()
    source.mkdir()
    (source / MESSAGE).write_bytes(b"abc")
    (source / "note.txt").write_bytes(b"not a message")
    link = MESSAGE.replace("345-", "346-")
    (source / link).symlink_to("/etc/hostname")
    mirror(source, target)
    assert [path.name for path in target.iterdir()] == [MESSAGE]
    assert (target / MESSAGE).read_bytes() == b"abc"
    (target / "other.txt").write_bytes(b"stays")
    (source / MESSAGE).unlink()
    mirror(source, target)
    assert [path.name for path in target.iterdir()] == ["other.txt"]


def test_another_line_of_pysyft_is_refused(monkeypatch):
    monkeypatch.setattr(pysyft_carrier, "version", lambda _: "0.9.5")
    with pytest.raises(SiteNotReadyError, match=r"PySyft 0\.10\.x is needed, not 0\.9\.5"):
        check_version()
    monkeypatch.setattr(pysyft_carrier, "version", lambda _: "0.10.3")
    check_version()


def test_carrying_needs_accounts_by_site(call, tmp_path):
    token = tmp_path / "token.json"
    token.write_text("{}")
    words = ("coordinator", "carry", tmp_path, "--study", "study", "--email", "me@example.org")
    code, _, err = call(*words, "--token", token, "--site", "north")
    assert code == 2
    assert "north=north@example.org" in err
