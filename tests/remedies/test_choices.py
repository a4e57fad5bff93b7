"""Where an error says what could be chosen, every choice that it names works."""

import os
import re

import numpy as np
import odd_files
import pandas as pd
import pytest
from advice import advice, case, listed

from cipherdag import Federation, Schema, Survival, infer_schema
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.federation.site import split_regimes
from cipherdag.privacy.keys.identity import WORDS, mismatch, pairing_code
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.private_files import lock, make_private_folder
from cipherdag.sites.record.witnesses import Witness
from cipherdag.sites.study.study import check_colluders, check_site_name, check_study_name
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.file_description import DescribedFile, FileDescription
from cipherdag.sites.table.reading import SOURCES

FORMATS = re.compile(r"CSV|\.xlsx|\.dta")


def written_as(form, path):
    """The odd files' table in a format that a remedy names."""
    made = path.with_suffix({"CSV": ".csv"}.get(form, form))
    if form == "CSV":
        odd_files.FRAME.to_csv(made, index=False, encoding="utf-8")
    elif form == ".xlsx":
        odd_files.FRAME.to_excel(made, index=False)
    else:
        odd_files.FRAME.rename(columns={"größe": "groesse"}).to_stata(made, write_index=False)
    return made


@pytest.mark.parametrize(
    "name",
    [
        case("PDF", "Export the table itself as CSV."),
        case("HTML that is called .xls", "Export the table as CSV or .xlsx."),
        case("old Excel", "Open it and save it as .xlsx, or as CSV"),
        case("zip archive", "Save the sheet as .xlsx or as 'CSV UTF-8', and"),
        case("OpenDocument", "Save the sheet as .xlsx or as 'CSV UTF-8', and"),
        case("SPSS", "Save it in SPSS as"),
        case("SAS", "Save it in SAS as"),
        case("CSV that is called .xlsx", "Give it the name of what it is"),
        case("workbook cut short", "Copy the file again from where it was made."),
        case("header only", "Give a file with a header and at least two rows."),
        case("one row", "Give a file with at least two rows; hundreds"),
        case("merged cells", "Unmerge them in Excel, and write the value into each"),
        case("formula without a value", "Open the workbook in Excel, let it compute, and save it."),
        case("an invisible character in a category", "Find and remove it in the file"),
    ],
)
def test_a_file_that_is_written_as_advised_is_read(tmp_path, name):
    odd = odd_files.ODD[name]
    file = tmp_path / odd.name
    file.write_bytes(odd.content)
    remedy = advice(infer_schema, [file])
    for form in FORMATS.findall(remedy) or ["CSV"]:
        assert len(infer_schema([written_as(form, tmp_path / "written")]).names) == 4


@pytest.mark.follows("Declare its encoding {}, or save it as UTF-8.", "Leave one of them out.")
def test_a_text_of_another_encoding_is_declared_or_saved_anew(tmp_path):
    file = tmp_path / "site.csv"
    file.write_bytes(odd_files.PLAIN.encode("latin-1"))
    wrong = DescribedFile(file, FileDescription(encoding="ascii"))
    remedy = advice(infer_schema, [wrong])
    assert "encoding" in remedy
    assert infer_schema([DescribedFile(file, FileDescription(encoding="latin-1"))])
    file.write_text(odd_files.PLAIN, "utf-8")
    assert infer_schema([file])
    (tmp_path / "site.toml").write_text('file = "site.csv"\n', "utf-8")
    twice = DescribedFile(tmp_path / "site.toml", FileDescription(thousands=" "))
    assert advice(infer_schema, [twice]).startswith("Leave one of them out")
    assert infer_schema([tmp_path / "site.toml"])


@pytest.mark.follows("Give {}.")
def test_every_source_that_is_listed_is_one(tmp_path):
    remedy = advice(infer_schema, [tmp_path / "none.csv"])
    assert all(source.words in remedy for source in SOURCES)


@pytest.mark.follows("Use a text of 1 to 63 letters", "Use a letter first, then at most 62")
def test_names_of_sites_and_studies_are_as_advised():
    remedy = advice(check_site_name, "a b")
    most = int(re.search(r"to (\d+) letters", remedy)[1])
    for name in ("A" * most, "9_-z"):
        assert check_site_name(name) == name
    remedy = advice(check_study_name, "9")
    most = int(re.search(r"most (\d+) letters", remedy)[1])
    assert check_study_name("a" + "_" * most)


@pytest.mark.follows(
    "Type the {} words, or all 64 digits", "Did they say {}?", "Have this word spelt"
)
def test_a_code_is_typed_as_advised():
    fingerprint = "ab" * 32
    code = pairing_code(fingerprint)

    def typed(heard):
        assert not mismatch(heard, fingerprint)

    words, digits = re.findall(r"\d+", advice(typed, "two words"))
    assert (len(code.split("-")), len(fingerprint)) == (int(words), int(digits))
    for heard in (code, fingerprint):
        typed(heard)
    word, *rest = code.split("-")
    near = advice(typed, "-".join([word[:-1] + "x", *rest]))
    assert word in listed(near.partition("? ")[0], "say ")
    assert word in WORDS
    assert "spelt" in advice(typed, "-".join(["qqqqqqqq", *rest]))


@pytest.mark.follows("Tolerate at most {}, or ask for more sites in each run.")
def test_as_many_colluding_sites_as_advised_are_tolerated():
    most = int(re.search(r"\d+", advice(check_colluders, 2, min_sites=3))[0])
    check_colluders(most, min_sites=3)
    check_colluders(2, min_sites=4)


def planned(n_sites, **options):
    members = [Member(name=f"s{k}", identity=bytes([k]) * 32) for k in range(n_sites)]
    about = {"algorithm": "fedpc", "parameters": {}, "protection": "masking", "purpose": "a test"}
    return make_plan(members, **(about | options))


@pytest.mark.follows("Run with at least {} distinct sites", "Choose {}; only the site can set")
def test_a_policy_is_met_as_advised():
    policy, parameters = Policy(min_sites=5, min_sites_bits=5), {"evidence": "vote"}

    def refused(**options):
        return advice(policy.check_run, planned(**options, parameters=parameters), rows=99)

    fewest = int(re.search(r"\d+", refused(n_sites=3))[0])
    remedy = refused(n_sites=fewest, protection="none")
    for protection in listed(remedy.partition(";")[0], "Choose "):
        policy.check_run(planned(fewest, protection=protection, parameters=parameters), rows=99)
    key, value = re.search(r"(\w+) = (true)", remedy).groups()
    assert Policy.loads(f"{key} = {value}").allow_unprotected


@pytest.mark.follows('Plan with --reveal bits (Python: reveal="bits") and no votes; or write')
def test_sums_of_tests_are_planned_as_bits_or_allowed():
    plan = planned(3, parameters={"reveal": "sums"})
    remedy = advice(Policy().check_plan, plan, runs=0)
    name, value = re.search(r"Python: (\w+)=\"(\w+)\"", remedy).groups()
    Policy().check_plan(planned(3, parameters={name: value}), runs=0)
    Policy.loads(re.search(r"write (.*) in policy", remedy)[1]).check_plan(plan, runs=0)


@pytest.mark.follows("Plan with {} one of {}.")
def test_bits_are_planned_at_a_level_as_advised():
    remedy = advice(Policy().check_plan, planned(3, parameters={"alpha": 0.03}), runs=0)
    name, levels = re.search(r"Plan with (\w+) one of (.*)\.", remedy).groups()
    for level in levels.split(", "):
        Policy().check_plan(planned(3, parameters={name: float(level)}), runs=0)


@pytest.mark.follows("Use fewer sites, or divide every regime (horizontal).")
def test_regimes_are_dealt_out_as_advised():
    marks, rng = np.eye(6, 2, dtype=bool).repeat(9, axis=0), np.random.default_rng(0)
    remedy = advice(split_regimes, marks, 3, vertical=True, rng=rng)
    assert "(horizontal)" in remedy
    assert split_regimes(marks, 2, vertical=True, rng=rng)
    assert split_regimes(marks, 3, vertical=False, rng=rng)


@pytest.mark.follows("Choose a new folder.", "Stop the other one first")
def test_a_folder_is_new_and_served_by_one(tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    assert "new folder" in advice(make_private_folder, tmp_path, folders=(), files={})
    make_private_folder(tmp_path / "new", folders=(), files={})
    held = lock(tmp_path / "lock")
    assert "Stop the other" in advice(lock, tmp_path / "lock", wait_s=0.0)
    os.close(held)
    os.close(lock(tmp_path / "lock", wait_s=0.0))


@pytest.mark.follows("Mount it first.")
def test_a_shared_folder_is_mounted(tmp_path):
    about = {"study": "lungs", "engine": "files", "files": str(tmp_path / "share")}
    assert advice(CoordinatorFolder.create, tmp_path / "new", **about).startswith("Mount")
    (tmp_path / "share").mkdir()
    assert CoordinatorFolder.create(tmp_path / "new", **about)


@pytest.mark.follows("Delete it; what other sites showed of their ledgers")
def test_a_record_that_cannot_be_read_is_deleted(tmp_path):
    path = tmp_path / "witnessed.json"
    path.write_text("{", "utf-8")
    witness = Witness(path, "north", bytes(32), None)
    assert advice(witness.check_complete)
    path.unlink()
    witness.check_complete()


@pytest.mark.follows("Give them different names.", "Give the column the same ordered categories")
def test_files_of_one_name_and_orders_that_differ(tmp_path):
    files = []
    for folder, mark in (("a", "\t"), ("b", ";")):
        (tmp_path / folder).mkdir()
        files.append(tmp_path / folder / "site.csv")
        files[-1].write_text(odd_files.PLAIN.replace(",", mark), "utf-8")
    assert "names" in advice(infer_schema, files)
    files[1] = files[1].rename(files[1].with_name("other.csv"))
    assert infer_schema(files)
    ordered = pd.Categorical(["a", "b"] * 9, categories=["a", "b", "c"], ordered=True)
    grades = [pd.DataFrame({"g": values}) for values in (ordered, ["a", "z"] * 9)]
    assert "same ordered categories" in advice(infer_schema, grades)
    assert infer_schema([grades[0], grades[0]])


@pytest.mark.follows("Give the edges of the bins.")
def test_edges_of_bins_are_given():
    rng = np.random.default_rng(0)
    data = {
        name: pd.DataFrame(
            {"died": rng.choice(["no", "yes"], 40), "months": rng.exponential(9.0, 40).round(2)}
        )
        for name in ("n", "s", "w")
    }
    data["s"]["months"] = data["w"]["months"] = np.nan
    federation = Federation.simulate(data, policy=Policy(min_cell_size=1))
    own = {"time": "months", "event": "died"}
    remedy = advice(federation.run, Survival(**own))
    assert Survival(**own, **{re.search(r"\b(edges)\b", remedy)[1]: (5.0, 30.0)})


@pytest.mark.follows('Name it by --interventions, or write kind = "intervention" in schema.toml.')
def test_interventions_are_named(call, tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.integers(0, 2, (300, 3)), columns=list("abc"))
    data["what"] = np.where(np.arange(300) % 3 == 0, "b", "")
    file = tmp_path / "data.csv"
    data.to_csv(file, index=False)
    words = ["simulate", "fedcd", file, "--sites", "3", "--deal", "horizontal"]
    words += ["--out", tmp_path / "o"]
    words += ["--rounds", "1", "--epochs", "1", "--fit-steps", "5", "--graph-steps", "2"]
    _, _, said = call(*words)
    option = re.search(r"Name it by (--\w+)", said)[1]
    assert call(*words, option, "what")[0] == 0


@pytest.mark.follows(
    "Name variables of the schema, several separated by ';'", "Correct --labels, or"
)
def test_variables_are_named():
    data = pd.DataFrame({"a": [0, 1] * 30, "b": [0, 1, 1] * 20, "what": ["", "a;b", "zzz"] * 20})
    columns = [Column(name, "discrete", categories=("0", "1")) for name in "ab"]
    schema = Schema((*columns, Column("what", "intervention")))
    remedy = advice(Federation.simulate, [data] * 3, schema=schema)
    mark = re.search(r"separated by '(.)'", remedy)[1]
    assert Federation.simulate([data.replace("zzz", f"b{mark}a")] * 3, schema=schema)
    assert "--labels" in advice(Federation.simulate, [data] * 3, schema=schema, labels=["zzz"])
