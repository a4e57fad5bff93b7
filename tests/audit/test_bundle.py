"""A bundle: it holds what it should, no more, and whoever changed it is caught by the file."""

import base64
import json
import re
import shutil
import sys
import zipfile
from datetime import UTC, datetime
from urllib.parse import unquote
from uuid import UUID

import adversary
import msgspec
import pytest
from bundled_runs import REASON, approved_run, members, zipped

from cipherdag import Federation, FedPC
from cipherdag.audit import auditing, bag, crate
from cipherdag.audit import bundle as evidence
from cipherdag.audit.bundle import bundle, verify_bundle
from cipherdag.errors import BundleError, LedgerError, OutputError, ParameterError
from cipherdag.privacy.keys.identity import SigningIdentity, pairing_code
from cipherdag.protocol.plan import Plan
from cipherdag.sites.policy.approvals import AskedRun, Person, PersonalDecision
from cipherdag.sites.study.study import coordinator_fingerprint

pytest.importorskip("rocrate")
CANARY = b"canary-of-a-patient"
SITES = {"hospital-0", "hospital-1", "hospital-2"}
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def approved(tmp_path_factory):
    return approved_run(tmp_path_factory.mktemp("approved"))


@pytest.fixture(scope="module")
def of_site(approved, tmp_path_factory):
    path = tmp_path_factory.mktemp("of-site") / "north.zip"
    bundle(approved.site(), path)
    return path


@pytest.fixture(scope="module")
def of_coordinator(approved, tmp_path_factory):
    folder = tmp_path_factory.mktemp("of-coordinator")
    for name in SITES:
        bundle(approved.site(name), folder / f"{name}.zip")
    bundle(approved.run, folder / "run.zip", bundles=sorted(folder.glob("hospital-*.zip")))
    return folder / "run.zip"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    data = {f"hospital-{k}": adversary.patients(n, k) for k, n in enumerate(adversary.ROWS)}
    folder = tmp_path_factory.mktemp("saved") / "result"
    Federation.simulate(data, device="cpu").run(FedPC()).save(folder)
    return folder


@pytest.fixture(scope="module")
def of_result(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("of-result") / "result.zip"
    bundle(result, path)
    return path


def read(path):
    return bag.read_bag(path.read_bytes(), called=path.name)


def forged(source, path, changes, *, identity=None, without=()):
    """A bundle with changed files whose digests all fit again, signed by a key or by none."""
    payload = {**read(source).payload, **changes}
    payload = {name: content for name, content in payload.items() if name not in without}
    path.write_bytes(repacked(payload, identity=identity))
    return path


def repacked(payload, **options):
    return bag.packed(payload, identifier=UUID(int=7), written=WRITTEN, **options)


def in_metadata(source, change):
    content = json.loads(read(source).payload[crate.METADATA])
    change({entity["@id"]: entity for entity in content["@graph"]})
    return {crate.METADATA: json.dumps(content).encode()}


# what it holds


def test_a_saved_result_is_bundled_with_its_files_alone(result, of_result, tmp_path):
    folder = tmp_path / "result"
    for path in result.rglob("*"):
        if path.is_file():
            to = folder / path.relative_to(result)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    for name in ("data.csv", "keys/identity.pem", "unfinished/north.pem", "notes.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(CANARY)
    bundle(folder, tmp_path / "again.zip")
    payload = read(tmp_path / "again.zip").payload
    assert payload.keys() == read(of_result).payload.keys()
    assert not any(CANARY in content for content in payload.values())
    saved = {path.name: path.read_bytes() for path in result.glob("*") if path.is_file()}
    bundled = {n.removeprefix("outputs/"): c for n, c in payload.items() if "outputs/" in n}
    assert bundled | {"run.toml": payload["workflow/run.toml"]} == saved
    for ledger in (result / "releases").glob("*.jsonl"):
        assert payload[f"ledgers/{ledger.name}"] == ledger.read_bytes()


def test_a_site_s_bundle_tells_nothing_that_the_site_keeps_secret(approved, of_site):
    payload = read(of_site).payload
    assert payload.keys() == {
        "workflow/plan.json", "workflow/ro-crate-metadata.json", "approvals/hospital-0.json",
        "policies/hospital-0.toml", "ledgers/hospital-0.jsonl", "study.json", "environment.json",
        "ro-crate-metadata.json",
    }  # fmt: skip
    everything = b"\n".join(members(of_site).values())
    folder = approved.hospitals.folders["hospital-0"]
    key = folder.identity()._key.private_bytes_raw()
    secrets = [
        key, key.hex().encode(), base64.b64encode(key), folder.identity_path.read_bytes()[40:80],
        REASON.encode(), *(name.encode() for name in adversary.NAMES),
        *(name.encode() for name in adversary.CATEGORIES),
    ]  # fmt: skip
    assert not [secret for secret in secrets if secret in everything]
    (sums,) = folder.runs.glob("*/sums.jsonl")
    opened = [json.loads(line)["values"] for line in sums.read_text("utf-8").splitlines()]
    assert len(opened) > 3
    assert not [values for values in opened if len(values) > 12 and values.encode() in everything]


def test_policies_lose_comments_and_ledgers_end_with_the_run(approved, of_site, tmp_path):
    folder = approved.hospitals.folders["hospital-1"]
    text, ledger = folder.policy_path.read_text("utf-8"), folder.ledger_path.read_bytes()
    folder.policy_path.write_text(f"{text}\n# {REASON}\n", "utf-8")
    try:
        from cipherdag.sites.record.ledger import Ledger

        Ledger("hospital-1", folder.identity(), path=folder.ledger_path).note("engine-start")
        bundle(folder.path, tmp_path / "b.zip")
    finally:
        folder.policy_path.write_text(text, "utf-8")
        folder.ledger_path.write_bytes(ledger)
    payload = read(tmp_path / "b.zip").payload
    assert REASON.encode() not in payload["policies/hospital-1.toml"]
    assert payload["ledgers/hospital-1.jsonl"] == ledger


# what it shows


def test_a_site_s_bundle_shows_plan_approval_ledger_and_signature(approved, of_site):
    check = verify_bundle(of_site)
    assert check.plan is not None
    assert check.plan.purpose == "a test"
    assert check.approved == ("hospital-0",)
    assert [ledger.head.site for ledger in check.ledgers] == ["hospital-0"]
    assert check.signer == "hospital-0"
    assert check.coordinator


def test_a_coordinator_s_bundle_holds_ledgers_against_what_arrived(of_coordinator):
    check = verify_bundle(of_coordinator)
    assert {ledger.head.site for ledger in check.ledgers} == SITES == set(check.approved)
    assert all(ledger.matched for ledger in check.ledgers)
    payload = read(of_coordinator).payload
    lines = payload["transcript.jsonl"].splitlines(keepends=True)
    assert len(lines) > 9


def test_the_commands_write_and_verify(call, approved, of_site, of_coordinator, result, tmp_path):
    code, said, _ = call("audit", "bundle", result, "--out", tmp_path / "b.zip")
    assert (code, said.startswith("Wrote ")) == (0, True)
    code, said, _ = call("audit", "verify", tmp_path / "b.zip")
    assert code == 0
    assert said.count("unbroken, signed") == 3
    assert "not shown: whose keys" in said
    code, said, _ = call("audit", "verify", of_site)
    assert code == 0
    for sentence in ("'hospital-0' approved this plan", "by hospital-0, over all files"):
        assert sentence in said
    study = approved.hospitals.study
    code = pairing_code(coordinator_fingerprint(study.coordinator, study.root))
    assert f"coordinator's code         {code}" in said
    code, said, _ = call("audit", "verify", of_coordinator, "--json")
    assert code == 0
    assert json.loads(said)["ledgers"].keys() == SITES
    assert json.loads(said)["signed_by"] == "the coordinator"


def test_what_cannot_be_bundled_is_named(call, approved, result, of_result, tmp_path):
    there = tmp_path / "there.zip"
    there.write_text("mine")
    for source, options in ((result, {"run": "abcdabcd"}), (result, {"bundles": [there]})):
        with pytest.raises(ParameterError):
            bundle(source, tmp_path / "b.zip", **options)
    with pytest.raises(OutputError, match="0 runs of this site start with"):
        bundle(approved.site(), tmp_path / "b.zip", run="ffffffff")
    with pytest.raises(BundleError, match="cannot be read as a zip file"):
        bundle(approved.run, tmp_path / "b.zip", bundles=[there])
    with pytest.raises(OutputError, match=r"result\.zip is no site's bundle"):
        bundle(approved.run, tmp_path / "b.zip", bundles=[of_result])
    code, _, said = call("audit", "bundle", tmp_path, "--out", tmp_path / "b.zip")
    assert code == 1
    assert "cannot be read" in said
    assert not (tmp_path / "b.zip").exists()


@pytest.mark.follows("name its folder under runs/ of the", "Name the run's folder where the coord")
def test_a_coordinator_s_copy_of_a_result_is_sent_to_the_run_s_folder(approved, tmp_path):
    copy = tmp_path / "out"
    copy.mkdir()
    (copy / "result.json").write_bytes((approved.run / "result.json").read_bytes())
    with pytest.raises(OutputError, match="no ledger and no plan") as caught:
        bundle(copy, tmp_path / "b.zip")
    assert "runs/" in caught.value.remedy
    moved = shutil.copytree(approved.run, tmp_path / "elsewhere" / "runs" / "run")
    with pytest.raises(OutputError, match="does not lie under"):
        bundle(moved, tmp_path / "b.zip")
    assert approved.run.parent == approved.coordinator / "runs"
    assert bundle(approved.run, tmp_path / "b.zip")


@pytest.mark.follows("Have the site run `cipherdag audit bundle` on its folder, and send that.")
def test_a_site_that_is_asked_for_its_bundle_makes_one(call, approved, of_result, tmp_path):
    with pytest.raises(OutputError, match="is no site's bundle") as caught:
        bundle(approved.run, tmp_path / "b.zip", bundles=[of_result])
    words = re.search(r"`cipherdag ([^`]+)`", caught.value.remedy)[1].split()
    assert call(*words, approved.site(), "--out", tmp_path / "site.zip")[0] == 0
    assert bundle(approved.run, tmp_path / "b.zip", bundles=[tmp_path / "site.zip"])


def test_without_rocrate_bundles_are_verified_alone(result, of_site, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("rocrate")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(OutputError, match="rocrate") as caught:
        bundle(result, tmp_path / "b.zip")
    assert "pip install 'cipherdag[crate]'" in caught.value.remedy
    assert verify_bundle(of_site).approved


# one byte


NAMED = (
    "data/workflow/plan.json", "data/approvals/hospital-0.json", "data/ledgers/hospital-0.jsonl",
    "data/policies/hospital-0.toml", "data/study.json", "data/environment.json",
    "data/ro-crate-metadata.json", "data/workflow/ro-crate-metadata.json",
    "bagit.txt", "bag-info.txt", "manifest-sha512.txt", "signature.json",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_one_changed_byte_is_caught_and_its_file_is_named(call, of_site, tmp_path, name):
    files = members(of_site)
    content = files[f"{bag.BAG}/{name}"]
    for place in (0, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1
        path = zipped(tmp_path / "c.zip", files | {f"{bag.BAG}/{name}": bytes(changed)})
        code, _, said = call("audit", "verify", path)
        assert code == 1
        assert f"{name.removeprefix('data/')} was changed" in said
        assert "Traceback" not in said


def test_a_file_that_is_missing_or_additional_is_named(of_site, tmp_path):
    files = members(of_site)
    for name in NAMED:
        fewer = {path: c for path, c in files.items() if path != f"{bag.BAG}/{name}"}
        with pytest.raises(BundleError, match=name.removeprefix("data/")):
            verify_bundle(zipped(tmp_path / "c.zip", fewer))
    for name in ("data/row.csv", "note.txt"):
        more = files | {f"{bag.BAG}/{name}": b"x"}
        with pytest.raises(BundleError, match=name.removeprefix("data/")):
            verify_bundle(zipped(tmp_path / "c.zip", more))


def test_every_changed_byte_of_the_zip_is_caught_or_changes_no_file(of_site, tmp_path):
    whole, files = of_site.read_bytes(), members(of_site)
    for place in range(0, len(whole), max(len(whole) // 300, 1)):
        changed = bytearray(whole)
        changed[place] ^= 0x41
        path = tmp_path / "c.zip"
        path.write_bytes(changed)
        try:
            verify_bundle(path)
        except (BundleError, LedgerError):
            continue
        assert sorted(members(path).values()) == sorted(files.values())


# forged so that every digest fits


STRANGER = SigningIdentity.generate()


def changed_plan(source, **changes):
    plan = Plan.loads(read(source).payload["workflow/plan.json"].decode())
    return {"workflow/plan.json": msgspec.structs.replace(plan, **changes).dumps().encode()}


def changed_approval(source, **changes):
    content = read(source).payload["approvals/hospital-0.json"]
    run = msgspec.json.decode(content, type=AskedRun)
    changed = msgspec.structs.replace(run, **changes)
    return {"approvals/hospital-0.json": msgspec.json.encode(changed)}


def identity_of(approved, name="hospital-0"):
    return approved.hospitals.folders[name].identity()


def of_another_key(source):
    plan = Plan.loads(read(source).payload["workflow/plan.json"].decode())
    first, *others = plan.cohort
    return changed_plan(
        source, cohort=(msgspec.structs.replace(first, identity=STRANGER.public), *others)
    )


def of_fewer_sites(source):
    content = json.loads(read(source).payload["study.json"])
    content["study"]["min_sites"] = 2
    return {"study.json": json.dumps(content).encode()}


def beyond_messages(source, file, change):
    """A plan, there or in its approval, with a number that no message holds."""
    content = json.loads(read(source).payload[file])
    (content if "plan" in file else content["plan"]).update(change)
    return {file: json.dumps(content).encode()}


EXCHANGED = {"policies/hospital-0.toml": b"min_sites = 2\n"}
PLAN, APPROVAL = "workflow/plan.json", "approvals/hospital-0.json"
UNKNOWN = "neither a site of the plan nor the coordinator"
OWN = "the site's own key"
DENIED, FORGED = (PersonalDecision(each, Person("A. Weber"), "") for each in ("denied", "approved"))
FORGED_SITES = [
    (lambda _: EXCHANGED, None, "signature.json is missing"),
    (lambda _: EXCHANGED, STRANGER, UNKNOWN),
    (lambda own: changed_plan(own, purpose="another purpose"), OWN, f"{APPROVAL} does not approve"),
    (lambda own: changed_approval(own, decisions=(DENIED,)), OWN, f"{APPROVAL} does not approve"),
    (lambda own: changed_approval(own, decisions=()), OWN, f"{APPROVAL} does not approve"),
    (
        lambda own: changed_approval(own, decisions=(FORGED,)),
        OWN,
        f"{APPROVAL} does not bear the signature",
    ),
    (of_another_key, STRANGER, "names another key for 'hospital-0'"),
    (of_fewer_sites, OWN, "study.json"),
    (lambda _: {PLAN: b"{}"}, OWN, PLAN),
    (lambda _: {"study.json": b"[]"}, OWN, "study.json"),
    (lambda _: {APPROVAL: b"x"}, OWN, APPROVAL),
    (lambda _: {"policies/hospital-0.toml": b"min_sites = 'two'"}, OWN, "hospital-0.toml"),
    (lambda _: {"ledgers/hospital-0.jsonl": b"\xff"}, OWN, "a ledger cannot be read as text"),
    (lambda _: {crate.METADATA: b"{}"}, OWN, crate.METADATA),
    (lambda _: {crate.METADATA: b"[" * 9000}, OWN, crate.METADATA),
    (lambda _: {crate.METADATA: b" " * 2**24 + b"{}"}, OWN, f"{crate.METADATA} has 16777218 bytes"),
    *(
        (lambda own, file=file, change=change: beyond_messages(own, file, change), OWN, file)
        for file in (PLAN, APPROVAL)
        for change in ({"seed": 2**70}, {"parameters": {"max_rows": 2**70}})
    ),
]


@pytest.mark.parametrize(("changes", "signer", "why"), FORGED_SITES)
def test_a_forged_bundle_of_a_site_is_caught(approved, of_site, tmp_path, changes, signer, why):
    signer = identity_of(approved) if signer == OWN else signer
    path = forged(of_site, tmp_path / "c.zip", changes(of_site), identity=signer)
    with pytest.raises(BundleError, match=re.escape(why)):
        verify_bundle(path)


def test_the_very_same_files_may_be_signed_anew(approved, of_site, tmp_path):
    verify_bundle(forged(of_site, tmp_path / "c.zip", {}, identity=identity_of(approved)))


def without_first_part(entities):
    del entities["./"]["hasPart"][0]


def of_another_profile(entities):
    entities["./"]["conformsTo"]["@id"] = "https://example.org/profile"


def first_part_named(identifier):
    return lambda entities: entities["./"]["hasPart"].__setitem__(0, {"@id": identifier})


@pytest.mark.parametrize(
    "change",
    [
        without_first_part,
        of_another_profile,
        *(first_part_named(identifier) for identifier in ({}, [], 5, None)),
    ],
)
def test_metadata_that_lack_a_file_or_name_none_are_caught(of_result, tmp_path, change):
    path = forged(of_result, tmp_path / "c.zip", in_metadata(of_result, change))
    with pytest.raises(BundleError, match=re.escape(crate.METADATA)):
        verify_bundle(path)


def test_a_ledger_of_a_saved_result_that_was_cut_is_caught(of_result, tmp_path):
    content = read(of_result).payload["ledgers/hospital-1.jsonl"]
    cut = b"".join(content.splitlines(keepends=True)[:-1])
    path = forged(of_result, tmp_path / "c.zip", {"ledgers/hospital-1.jsonl": cut})
    with pytest.raises(LedgerError, match="ends after line"):
        verify_bundle(path)


def relisted(files):
    """The files of a zip, and the list of its tag files that fits them."""
    tags = {
        path.removeprefix(f"{bag.BAG}/"): content
        for path, content in files.items()
        if "/data/" not in path and "tagmanifest" not in path
    }
    return files | {f"{bag.BAG}/{bag.TAG_MANIFEST}": bag._manifest(tags)}


def test_a_signature_of_other_files_is_caught(of_site, of_coordinator, tmp_path):
    name = f"{bag.BAG}/signature.json"
    changed = relisted(members(of_site) | {name: members(of_coordinator)[name]})
    with pytest.raises(BundleError, match=r"signature\.json is not a signature"):
        verify_bundle(zipped(tmp_path / "c.zip", changed))


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ((), r"signature\.json is missing from the bundle: nobody signed"),
        ((PLAN, APPROVAL), r"workflow/plan\.json is missing from the bundle, which holds a study"),
    ],
)
def test_a_signature_that_was_taken_off_is_named(of_site, tmp_path, gone, why):
    def unlisted(entities):
        parts = [part for part in entities["./"]["hasPart"] if part["@id"] not in gone]
        entities["./"].update(hasPart=parts)

    path = forged(of_site, tmp_path / "c.zip", in_metadata(of_site, unlisted), without=gone)
    with pytest.raises(BundleError, match=why) as caught:
        verify_bundle(path)
    assert caught.value.effect == "the bundle proves nothing"
    assert "send it again" in caught.value.remedy


def test_a_record_whose_signature_was_taken_off_is_named_by_its_line(result, tmp_path):
    folder = shutil.copytree(result, tmp_path / "result")
    path = min(folder.rglob("*.jsonl"))
    stripped = re.sub(r'"signature":"\w+"', '"signature":""', path.read_text("utf-8"), count=1)
    path.write_text(stripped, "utf-8")
    with pytest.raises(LedgerError, match="line 1") as caught:
        auditing.verify(folder)
    assert path.stem in str(caught.value)


def test_a_plan_that_nobody_approved_is_caught_though_a_site_signs(approved, of_site, tmp_path):
    changes = changed_plan(of_site, purpose="another purpose")
    gone = ("approvals/hospital-0.json",)
    listed = in_metadata(
        of_site,
        lambda entities: entities["./"].update(
            hasPart=[part for part in entities["./"]["hasPart"] if part["@id"] not in gone]
        ),
    )
    path = forged(
        of_site, tmp_path / "c.zip", changes | listed, identity=identity_of(approved), without=gone
    )
    with pytest.raises(BundleError, match=r"ledgers/hospital-0\.jsonl records nothing of the run"):
        verify_bundle(path)


def test_a_ledger_that_lacks_what_arrived_is_caught(approved, of_coordinator, tmp_path):
    site, inner = "hospital-1", tmp_path / "inner.zip"
    whole = read(of_coordinator).payload[f"sites/{site}.zip"]
    inner.write_bytes(whole)
    lines = read(inner).payload[f"ledgers/{site}.jsonl"].splitlines(keepends=True)
    for cut, why in ((lines[:-1], "1 answers arrived"), (lines[1:], "line 1")):
        inner.write_bytes(whole)
        changes = {f"ledgers/{site}.jsonl": b"".join(cut)}
        forged(inner, inner, changes, identity=identity_of(approved, site))
        path = forged(
            of_coordinator,
            tmp_path / "c.zip",
            {f"sites/{site}.zip": inner.read_bytes()},
            identity=approved.hospitals.coordinator,
        )
        with pytest.raises(LedgerError, match=why):
            verify_bundle(path)


def test_a_bundle_within_another_is_of_its_site_and_plan(
    approved, of_coordinator, of_site, of_result, tmp_path
):
    signed = {"identity": approved.hospitals.coordinator}
    other = approved_run(tmp_path / "other")
    bundle(other.site(), tmp_path / "other.zip")
    with pytest.raises(BundleError, match=r"sites/hospital-0\.zip is of another plan"):
        bundle(approved.run, tmp_path / "b.zip", bundles=[tmp_path / "other.zip"])
    assert not (tmp_path / "b.zip").exists()
    cases = {
        "is not signed by 'hospital-1'": of_site.read_bytes(),
        "is not signed by": of_result.read_bytes(),
        "cannot be read as a zip file": b"zip",
        "hospital-1.zip is not signed": of_coordinator.read_bytes(),
    }
    for why, content in cases.items():
        changes = {"sites/hospital-1.zip": content}
        with pytest.raises(BundleError, match=why):
            verify_bundle(forged(of_coordinator, tmp_path / "c.zip", changes, **signed))
    nested = forged(of_coordinator, tmp_path / "n.zip", {}, identity=identity_of(approved))
    changes = {"sites/hospital-0.zip": nested.read_bytes()}
    with pytest.raises(BundleError, match="is not the bundle of one site"):
        verify_bundle(forged(of_coordinator, tmp_path / "c.zip", changes, **signed))


@pytest.mark.parametrize("name", ["of_result", "of_coordinator"])
def test_tables_that_do_not_say_what_the_result_says_are_caught(name, approved, request, tmp_path):
    source = request.getfixturevalue(name)
    signed = {"identity": approved.hospitals.coordinator if name == "of_coordinator" else None}
    payload = read(source).payload
    for file in ("edges.csv", "graph.graphml", "graph.dot"):
        changes = {f"outputs/{file}": payload[f"outputs/{file}"] + b"\n"}
        with pytest.raises(BundleError, match=rf"outputs/{file} is not what outputs/result\.json"):
            verify_bundle(forged(source, tmp_path / "c.zip", changes, **signed))
    report = json.loads(payload["outputs/result.json"])
    assert report["edges"]
    for changed in (
        report | {"variables": dict.fromkeys(map(str, range(5001)), 2)},
        report | {"edges": report["edges"][1:]},
        report | {"edges": [5]},
        [],
        7,
    ):
        changes = {"outputs/result.json": json.dumps(changed).encode()}
        with pytest.raises(BundleError, match=r"outputs/"):
            verify_bundle(forged(source, tmp_path / "c.zip", changes, **signed))


# what is no bundle


def test_what_is_no_bundle_is_refused(call, tmp_path):
    path = tmp_path / "c.zip"
    for content in (b"", b"PK", b"x" * 999):
        path.write_bytes(content)
        code, _, said = call("audit", "verify", path)
        assert code == 1
        assert "cannot be read as a zip file" in said
    for files in ({"a/b": b""}, {"a/b": b"", "c/d": b""}, {"alone": b""}, {}):
        with pytest.raises(BundleError):
            verify_bundle(zipped(path, files))
    for name in ("../x", "a/../../x", "/etc/passwd", "a\\b", "a/b\x1b", "a/b. "):
        with pytest.raises(BundleError, match="outside its folder"):
            verify_bundle(zipped(path, {name: b"", "b/c": b""}))


ROOT = f"{bag.BAG}/"


@pytest.mark.parametrize(
    "name",
    [
        f"{bag.BAG}//data/policies/hospital-0.toml", f"{bag.BAG}/./data/policies/hospital-0.toml",
        f"{bag.BAG}/DATA/policies/hospital-0.toml", f"{bag.BAG}/README.html",
        f"{bag.BAG}/data/policies/hospital-0.TOML", f"{bag.BAG}/data/policies/hospital-0.toml.",
        f"{bag.BAG}/data/policies/", f"{bag.BAG}/x/../data/study.json",
    ],
)  # fmt: skip
def test_no_entry_can_unpack_over_a_signed_file_or_next_to_it(of_site, tmp_path, name):
    files = members(of_site) | {name: b"forged"}
    with pytest.raises(BundleError):
        verify_bundle(zipped(tmp_path / "c.zip", relisted(files)))


def test_the_signature_covers_every_tag_file(of_site, tmp_path):
    files = members(of_site)
    files[f"{ROOT}bag-info.txt"] += b"Source-Organization: another\n"
    with pytest.raises(BundleError, match=r"signature\.json is not a signature"):
        verify_bundle(zipped(tmp_path / "c.zip", relisted(files)))


def rewritten(source, path, change):
    """A bundle with the same files, whose entries are changed before they are written."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members(source).items():
            info = zipfile.ZipInfo(name)
            change(info)
            archive.writestr(info, content)
    return path


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda info: setattr(info, "external_attr", 0o120777 << 16), "not a regular file"),
        (lambda info: setattr(info, "external_attr", 0x10), "not a regular file"),
        (lambda info: setattr(info, "extra", b"\x75\x70\x01\x00\x01"), "no bundle"),
        (lambda info: setattr(info, "comment", b"read this"), "no bundle"),
    ],
)
def test_an_entry_that_is_more_than_a_regular_file_is_caught(of_site, tmp_path, change, why):
    verify_bundle(rewritten(of_site, tmp_path / "c.zip", lambda _: None))
    with pytest.raises(BundleError, match=f"{why}|cannot be read"):
        verify_bundle(rewritten(of_site, tmp_path / "c.zip", change))


def test_bytes_around_the_files_of_a_zip_are_caught(of_site, tmp_path):
    whole, path = of_site.read_bytes(), tmp_path / "c.zip"
    with_comment = whole[:-2] + b"\x02\x00hi"
    middle = whole.index(b"PK\1\2")
    gap = whole[:middle] + bytes(8) + whole[middle:]
    for changed in (b"#!/bin/sh\n" + whole, whole + b"\0", with_comment, gap):
        path.write_bytes(changed)
        with pytest.raises(BundleError, match="outside its files|cannot be read"):
            verify_bundle(path)


def test_who_signed_is_named_by_the_key_and_not_by_the_file(of_site, of_result, tmp_path):
    content = json.loads(members(of_site)[f"{ROOT}signature.json"])
    assert content.keys() == {"identity", "signature"}
    path = forged(of_result, tmp_path / "c.zip", {}, identity=STRANGER)
    with pytest.raises(BundleError, match="says whose key that is"):
        verify_bundle(path)


def test_a_zip_that_unpacks_to_too_much_is_not_unpacked(of_site, tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    with pytest.raises(BundleError, match="unpacks to"):
        bag.read_bag(of_site.read_bytes(), called="it", most=1000)


def test_bundles_within_a_bundle_share_one_limit(of_coordinator, monkeypatch):
    outer = read(of_coordinator)
    inner = [bag.read_bag(outer.payload[f"sites/{name}.zip"], called=name) for name in SITES]
    verify_bundle(of_coordinator)
    all_of_it = outer.size + sum(nested.size for nested in inner)
    monkeypatch.setattr(evidence, "MAX_BYTES", all_of_it - 1)
    with pytest.raises(BundleError, match=r"sites/hospital-2\.zip unpacks to"):
        verify_bundle(of_coordinator)
    monkeypatch.setattr(evidence, "MAX_BYTES", 2**28)
    monkeypatch.setattr(evidence, "MOST_SITES", 2)
    with pytest.raises(BundleError, match="holds 3 bundles of sites, of 2 at most"):
        verify_bundle(of_coordinator)


def test_a_file_too_large_to_be_a_bundle_is_not_read(of_site, monkeypatch):
    monkeypatch.setattr(evidence, "MAX_BYTES", 1000)
    monkeypatch.setattr(type(of_site), "read_bytes", None)
    with pytest.raises(BundleError, match="1000 at most"):
        verify_bundle(of_site)


# the form: RO-Crate 1.2, Five Safes RO-Crate 0.4, BagIt 1.0


@pytest.mark.parametrize("source", ["of_site", "of_coordinator", "of_result"])
def test_the_form_is_that_of_a_five_safes_crate(source, request):
    path = request.getfixturevalue(source)
    files = members(path)
    assert {name.partition("/")[0] for name in files} == {bag.BAG}
    assert files[f"{bag.BAG}/bagit.txt"].startswith(b"BagIt-Version: 1.0\n")
    assert b"External-Identifier: urn:uuid:" in files[f"{bag.BAG}/bag-info.txt"]
    payload = read(path).payload
    for metadata in (crate.METADATA, f"workflow/{crate.METADATA}"):
        content = json.loads(payload[metadata])
        assert content["@context"] == "https://w3id.org/ro/crate/1.2/context"
        entities = {entity["@id"]: entity for entity in content["@graph"]}
        assert len(entities) == len(content["@graph"])
        about = entities["ro-crate-metadata.json"]
        assert about["about"] == {"@id": "./"}
        assert about["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
        for needed in ("name", "description", "datePublished", "license"):
            assert entities["./"][needed]
        folder = metadata.removesuffix(crate.METADATA)
        for entity in entities.values():
            if "File" in entity["@type"]:
                assert folder + unquote(entity["@id"]) in payload
            for reference in references(entity):
                assert reference in entities or reference.startswith("http")
    entities = {e["@id"]: e for e in json.loads(payload[crate.METADATA])["@graph"]}
    root = entities["./"]
    assert root["conformsTo"] == {"@id": crate.PROFILE}
    assert entities[root["sourceOrganization"]["@id"]]["@type"] == "Project"
    workflow = entities[root["mainEntity"]["@id"]]
    assert workflow["@type"] == "Dataset"
    assert workflow["conformsTo"] == {"@id": crate.WORKFLOW_PROFILE}
    actions = [entities[reference] for reference in references(root["mentions"])]
    (run,) = [action for action in actions if action["@type"] == "CreateAction"]
    assert run["instrument"] == root["mainEntity"]
    assert run["startTime"] <= run["endTime"]
    assert entities[run["agent"]["@id"]]["@type"] == "Person"
    signed_off = [action for action in actions if action["@type"] == "AssessAction"]
    assert len(signed_off) == {"of_site": 1, "of_coordinator": 3, "of_result": 0}[source]
    for action in signed_off:
        assert action["additionalType"] == {"@id": crate.SIGN_OFF}
        assert {"@id": "./"} in action["object"]


def references(value):
    """What an entity's properties refer to."""
    if isinstance(value, list):
        for each in value:
            yield from references(each)
    elif isinstance(value, dict):
        if value.keys() == {"@id"}:
            yield value["@id"]
        else:
            for each in value.values():
                yield from references(each)


def test_names_of_files_are_written_as_manifests_write_them(tmp_path):
    payload = {"ledgers/50 % of charité.jsonl": b"x"}
    path = tmp_path / "b.zip"
    path.write_bytes(repacked(payload))
    assert read(path).payload == payload
    listed = members(path)[f"{bag.BAG}/{bag.MANIFEST}"].decode()
    assert listed.endswith("data/ledgers/50 %25 of charité.jsonl\n")
