"""The page for a data-protection officer: what it says is what the ledger says, and no more."""

import shutil
from datetime import UTC, datetime, timedelta

import adversary
import pandas as pd
from hospital_folders import hospitals
from pages import Page

from cipherdag import FedPC
from cipherdag.audit.ledger_page import attention, ledger_page, ledger_runs
from cipherdag.privacy.keys.identity import SigningIdentity, fingerprint
from cipherdag.sites.record.ledger import Ledger, read_releases, verify_ledger

IDENTITY = SigningIdentity.generate()


def ledger(*runs, site="charité <&>"):
    """A ledger of runs, each a list of (kind, values, protection, sites)."""
    start = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
    ticks = iter(start + timedelta(minutes=7 * k) for k in range(10_000))
    made = Ledger(site, IDENTITY, clock=lambda: next(ticks))
    for number, releases in enumerate(runs):
        for round_number, (kind, values, protection, sites) in enumerate(releases):
            made.append(
                session=bytes([number]) * 16,
                round_number=round_number,
                algorithm="fedpc",
                kind=kind,
                values=values,
                content=bytes(8 * values),
                protection=protection,
                sites=sites,
                digest=bytes(32),
            )
    return made


def page_of(made, *, pinned=True):
    head = verify_ledger(made.lines)
    page = Page(ledger_page(read_releases(made.lines), head, pinned=pinned))
    page.check_offline()
    return page


def said(*runs):
    return " ".join(attention(ledger_runs(read_releases(ledger(*runs).lines))))


MASKED = [("schema-digest", 1, "masking", 3), ("edge-votes", 28, "masking", 3)]


def test_every_number_is_the_ledgers():
    made = ledger(MASKED, [*MASKED, ("scores", 5, "masking", 3), ("mask-seeds", 4, "masking", 3)])
    page, records = page_of(made), read_releases(made.lines)
    for heading, field in (
        ("Line", "line"),
        ("Round", "round"),
        ("Values", "values"),
        ("Bytes", "bytes"),
        ("Sites", "sites"),
    ):
        shown = page.column("record-table", heading, values=True)
        assert shown == [[str(getattr(record, field))] for record in records]
    runs = page.tables["table-0"]
    assert [[cell[0].strip() for cell in row[:7]] for row in runs[1:]] == [
        ["2026-03-01 08:30 UTC", "00000000", "FedPC", "masked", "3", "1", "28"],
        ["2026-03-01 08:44 UTC", "01010101", "FedPC", "masked", "3", "3", "33"],
    ]
    facts = [own["value"] for tag, own in page.elements if tag == "data"]
    assert {"2", "6", "61", str(sum(record.bytes for record in records))} <= set(facts)
    assert "What left charité <&>" in page.texts["h1"]
    assert fingerprint(IDENTITY.public).upper() in page.texts["main"]
    assert made.head.hash in page.texts["main"]


def test_it_says_whether_the_key_was_known():
    assert "the study pins" in page_of(ledger(MASKED)).texts["main"]
    assert "taken from the ledger itself" in page_of(ledger(MASKED), pinned=False).texts["main"]


def test_a_ledger_without_fault_raises_no_question():
    assert said(MASKED, MASKED) == ""
    assert "Nothing left in the clear" in page_of(ledger(MASKED)).texts["main"]


def test_what_a_reader_should_ask_about():
    clear = [("edge-votes", 28, "none", 3)]
    few = [("edge-votes", 28, "masking", 2)]
    shrinking = [("edge-votes", 28, "masking", 5), ("edge-votes", 20, "masking", 4)]
    assert "In 1 of 2 runs answers left this site in the clear" in said(MASKED, clear)
    assert "In 1 of 1 runs a sum covered fewer than three sites" in said(few)
    assert "In 1 of 1 runs a site left on the way" in said(shrinking)
    assert "different numbers of sites (3, 5)" in said(MASKED, shrinking)
    page = page_of(ledger(clear))
    assert "in the clear" in page.texts["table"]
    assert "no answer of its own left it" not in page.texts["header"]


def test_an_empty_ledger_has_a_page():
    assert "Nothing has left this site." in page_of(ledger()).texts["header"]


def test_a_real_run_under_encryption_has_a_page():
    result = adversary.hospitals("bfv").run(FedPC(evidence="vote"))
    for site in result.sites:
        lines = result.ledgers[site]
        page = Page(ledger_page(read_releases(lines), verify_ledger(lines), pinned=False))
        page.check_offline()
        assert "encrypted (BFV)" in page.texts["table"]
        assert len(page.body("record-table")) == result.heads[site].records


def test_a_page_is_exported_from_a_ledger_file_and_from_a_site(call, tmp_path):
    made = ledger(MASKED, site="charite")
    file, out = tmp_path / "ledger.jsonl", tmp_path / "page.html"
    file.write_text("".join(line + "\n" for line in made.lines), "utf-8")
    code, text, _ = call("audit", "export", file, "--out", out, "--format", "html")
    assert (code, text) == (0, f"Wrote 2 records to {out}\n")
    page = Page(out.read_text("utf-8"))
    page.check_offline()
    assert "What left charite" in page.texts["title"]
    site = hospitals(tmp_path).folders["hospital-0"].path
    fresh = tmp_path / "fresh.html"
    assert call("audit", "export", site, "--out", fresh, "--format", "html")[0] == 0
    assert "Nothing has left" in fresh.read_text("utf-8")


def test_a_broken_ledger_has_no_page(call, tmp_path):
    lines = list(ledger(MASKED).lines)
    file = tmp_path / "ledger.jsonl"
    file.write_text(lines[1] + "\n", "utf-8")
    code, _, error = call("audit", "export", file, "--out", tmp_path / "p.html", "--format", "html")
    assert code == 1
    assert "line 1" in error
    assert not (tmp_path / "p.html").exists()


def test_a_transcript_has_no_page(call, tmp_path):
    (tmp_path / "transcript.jsonl").write_text("", "utf-8")
    out = tmp_path / "p.html"
    code, _, error = call("audit", "export", tmp_path, "--out", out, "--format", "html")
    assert code == 1
    assert "a site's folder" in error


def test_a_saved_result_is_exported_site_by_site_and_as_one_table(call, saved_asia, tmp_path):
    sites = sorted(path.stem for path in (saved_asia / "releases").glob("*.jsonl"))
    count = {}
    for site in sites:
        own, out = saved_asia / "releases" / f"{site}.jsonl", tmp_path / f"{site}.jsonl"
        code, said, _ = call("audit", "export", saved_asia, "--site", site, "--out", out)
        assert code == 0
        assert out.read_bytes() == own.read_bytes()
        count[site] = len(own.read_text("utf-8").splitlines())
        head = verify_ledger(out.read_text("utf-8").splitlines())
        assert (head.site, f"Wrote {head.records} records" in said) == (site, True)
        code, *_ = call(
            "audit", "export", saved_asia, "--site", site, "--format", "html",
            "--out", tmp_path / f"{site}.html",
        )  # fmt: skip
        assert code == 0
        page = Page((tmp_path / f"{site}.html").read_text("utf-8"))
        page.check_offline()
        assert f"What left {site}" in page.texts["h1"]
    code, *_ = call("audit", "export", saved_asia, "--format", "csv", "--out", tmp_path / "all.csv")
    assert code == 0
    table = pd.read_csv(tmp_path / "all.csv")
    assert {site: len(own) for site, own in table.groupby("site")} == count


def test_several_ledgers_are_not_one_file_and_no_site_is_guessed(call, saved_asia, tmp_path):
    for kind in ("jsonl", "html"):
        code, _, err = call(
            "audit", "export", saved_asia, "--format", kind, "--out", tmp_path / "x"
        )
        assert code == 1
        assert "holds ledgers of 3 sites" in err
        assert "Choose with --site: " in err
    code, _, err = call("audit", "export", saved_asia, "--site", "nobody", "--out", tmp_path / "x")
    assert (code, "holds no ledger of 'nobody'" in err) == (1, True)
    one = next((saved_asia / "releases").glob("*.jsonl"))
    code, _, err = call("audit", "export", one, "--site", one.stem, "--out", tmp_path / "x")
    assert (code, "Leave --site out" in err) == (1, True)
    assert not (tmp_path / "x").exists()


def test_an_altered_result_is_not_exported(call, saved_asia, tmp_path):
    altered = tmp_path / "altered"
    shutil.copytree(saved_asia, altered)
    ledgers = sorted((altered / "releases").glob("*.jsonl"))
    kept = ledgers[0].read_text("utf-8")
    ledgers[0].write_text(kept.replace('"masking"', '"none"', 1), "utf-8")
    code, _, err = call("audit", "export", altered, "--format", "csv", "--out", tmp_path / "x")
    assert (code, "LedgerError" in err) == (1, True)
    ledgers[0].write_text(kept, "utf-8")
    ledgers[1].unlink()
    code, _, err = call("audit", "export", altered, "--format", "csv", "--out", tmp_path / "x")
    assert (code, "the ledger is missing" in err) == (1, True)
    assert not (tmp_path / "x").exists()
