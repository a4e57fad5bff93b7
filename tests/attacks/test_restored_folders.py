"""A folder restored from an older backup, or copied, is noticed by what other sites remember.

A restored folder verifies by itself: its ledger is unbroken, and shorter. The runs since are
missing from ``max_runs`` and from the rule on differences.
"""

import shutil
from unittest.mock import patch

import hospital_folders
import pytest
from adversary import votes

from cipherdag.errors import KeyAgreementError, LostRecordsError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol import plan as plans
from cipherdag.protocol.plan import Member
from cipherdag.protocol.set_up_messages import Memory, Remembered, ShownRecord
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import DOMAIN, Ledger
from cipherdag.sites.record.witnesses import WITNESSES, Witness
from cipherdag.sites.study.doctor import examine
from cipherdag.sites.study.site_folder import SiteFolder

NORTH, SOUTH = "hospital-0", "hospital-1"


@pytest.fixture
def n_sites():
    return 3


@pytest.fixture
def hospitals(tmp_path, n_sites):
    policy = Policy(approve_runs="automatic", approve_cohorts="automatic", reveal="sums")
    names = tuple(f"hospital-{number}" for number in range(n_sites))
    made = hospital_folders.hospitals(tmp_path, policy=policy, names=names)
    yield made
    made.close()


def run(hospitals, names=None, **options):
    """One run with processes of its own at every site."""
    try:
        session = hospitals.session(hospitals.handlers(), names=names, **options)
        session.open()
        session.ask(votes())
        return session.finish()
    finally:
        hospitals.close()


def ledger_row(folder):
    with patch("cipherdag.sites.study.doctor.connection_checks", lambda *_, **__: iter(())):
        rows = {row.check: row for row in examine(folder, rehearse=lambda _: None)}
    return rows["ledger"]


def backed_up(folder, to):
    return shutil.copytree(folder.path, to)


def restored(folder, backup):
    shutil.rmtree(folder.path)
    shutil.copytree(backup, folder.path)


@pytest.mark.parametrize("n_sites", [3, 8])
def test_a_restored_site_refuses_the_next_run(hospitals, tmp_path, n_sites, monkeypatch):
    """The backup is of just before the last run; three share all keys, eight a sparse graph."""
    monkeypatch.setattr(plans, "COMPLETE_UP_TO", 4)
    folder = hospitals.folders[NORTH]
    assert (hospitals.plan().key_bounds is None) == (n_sites == 3)
    run(hospitals)
    backup = backed_up(folder, tmp_path / "backup")
    run(hospitals)
    newest = backed_up(folder, tmp_path / "newest")
    restored(folder, backup)
    assert ledger_row(folder).state == "ok", "before anybody is met, nothing tells"
    with pytest.raises(LostRecordsError, match="restored from an older backup") as caught:
        run(hospitals)
    assert caught.value.site == NORTH
    row = ledger_row(folder)
    assert (row.state, "newest folder" in row.fix) == ("fail", True)
    with pytest.raises(LostRecordsError):
        run(hospitals)
    restored(folder, newest)
    run(hospitals)
    assert ledger_row(folder).state == "ok"


def test_a_copy_that_takes_part_in_place_of_the_original_is_named(hospitals, tmp_path):
    """Whichever takes part first; the other one hears of it."""
    folder = hospitals.folders[NORTH]
    run(hospitals)
    copy = SiteFolder(backed_up(folder, tmp_path / "copy"))
    run(hospitals)
    hospitals.folders[NORTH] = copy
    with pytest.raises(LostRecordsError, match="a copy of it took part elsewhere"):
        run(hospitals)
    assert ledger_row(copy).state == "fail"


def test_runs_over_other_sites_in_turn_are_not_mistaken_for_it(hospitals):
    hospitals.pin(min_sites=2)
    for folder in hospitals.folders.values():
        text = folder.policy_path.read_text().replace("min_sites = 3", "min_sites = 2")
        folder.policy_path.write_text(text)
    for names in (None, (NORTH, SOUTH), (SOUTH, "hospital-2"), (NORTH, "hospital-2"), None):
        handlers = {name: hospitals.handler(name) for name in names or hospitals.folders}
        session = hospitals.session(handlers, names=names)
        session.open()
        hospitals.close()


def witness(folder, name, key):
    ledger = Ledger(name, key)
    ledger.note("engine-start")
    return Witness(folder / f"{name}.json", name, key.public, ledger)


def test_nobody_can_make_a_site_lack_what_it_did_not_sign(tmp_path):
    key, stranger = SigningIdentity.generate(), SigningIdentity.generate()
    own = witness(tmp_path, "north", key)
    record = b"r" * 32
    lie = encode(Memory((Remembered(0, record, stranger.sign(DOMAIN, record)),)))
    elsewhere = encode(Memory((Remembered(1, record, key.sign(DOMAIN, record)),)))
    own.check([lie, elsewhere, b""], 0)
    own.check_complete()
    with pytest.raises(LostRecordsError):
        own.check([encode(Memory((Remembered(0, record, key.sign(DOMAIN, record)),)))], 0)
    with pytest.raises(LostRecordsError):
        own.check_complete()


def test_a_site_that_shows_a_record_it_did_not_sign_is_named(tmp_path):
    key, stranger = SigningIdentity.generate(), SigningIdentity.generate()
    own = witness(tmp_path, "north", key)
    cohort = [Member("north", key.public), Member("south", stranger.public)]
    shown = encode(ShownRecord(b"r" * 32, key.sign(DOMAIN, b"r" * 32)))
    with pytest.raises(KeyAgreementError, match="did not sign") as caught:
        own.remember(cohort, [b"", shown])
    assert caught.value.site == "south"


def test_a_site_reminds_a_few_of_the_others_whatever_the_cohort(tmp_path):
    keys = [SigningIdentity.generate() for _ in range(30)]
    sites = [witness(tmp_path, f"s{k}", key) for k, key in enumerate(keys)]
    cohort = [Member(f"s{k}", key.public) for k, key in enumerate(keys)]
    sites[25].remember(cohort, [site.last_record() for site in sites])
    found = decode(sites[25].memory(cohort, 25), Memory)
    assert [seen.site for seen in found.records] == [26, 27, 28, 29, 0, 1, 2, 3]
    assert len(found.records) == WITNESSES
    for seen in found.records:
        sites[seen.site].check([encode(found)], seen.site)
