"""What a published package says of itself: how to cite it, and that every version is pinned."""

import re
import subprocess
import tomllib

import pytest
import yaml
from documents import ROOT
from packaging.requirements import Requirement

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
NAME = re.compile(r"[A-Za-z0-9._-]+")
PIN = re.compile(r"([A-Za-z0-9._-]+)==[^=\s]+")


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return [PIN.fullmatch(line) for line in lines if line and not line.startswith("#")]


def test_the_citation_has_what_its_format_requires():
    """Keys that Citation File Format 1.2.0 requires, and facts that must not drift apart."""
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["message"].strip()
    assert CITATION["title"].startswith(PROJECT["name"])
    assert CITATION["type"] == "software"
    assert CITATION["authors"]
    assert (CITATION["version"], CITATION["license"]) == (PROJECT["version"], PROJECT["license"])
    assert f"\nVersion: {PROJECT['version']}\n" in (ROOT / "r" / "DESCRIPTION").read_text("utf-8")
    assert set(CITATION) <= {
        "cff-version", "message", "type", "title", "abstract", "authors", "version", "license",
        "keywords", "references",
    }  # fmt: skip


@pytest.mark.parametrize("work", [CITATION, *CITATION["references"]], ids=lambda own: own["title"])
def test_every_work_names_people_or_a_group(work):
    assert work["title"]
    for author in work["authors"]:
        assert author.keys() in ({"name"}, {"family-names", "given-names"})
        assert all(isinstance(own, str) and own for own in author.values())


@pytest.mark.parametrize("work", CITATION["references"], ids=lambda own: own["title"])
def test_every_reference_says_its_kind_and_its_algorithm(work):
    assert work["type"] == "article"
    assert (ROOT / "docs" / "explanation" / f"{normal(work['notes']).replace('-', '')}.md").exists()


def test_every_version_is_pinned_once():
    found = pins()
    assert all(found)
    names = [normal(pin[1]) for pin in found]
    assert len(names) == len(set(names))


def test_everything_the_package_asks_for_is_pinned():
    pinned = {normal(pin[1]) for pin in pins()}
    asked = [*PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        asked += extra
    for requirement in asked:
        name = normal(NAME.match(requirement)[0])
        assert name in pinned | {"cipherdag"}, requirement


def test_the_development_extra_holds_every_other_that_users_install():
    (own,) = (r for r in PROJECT["optional-dependencies"]["dev"] if r.startswith("cipherdag["))
    extras = set(own.removeprefix("cipherdag[").removesuffix("]").split(","))
    assert extras == set(PROJECT["optional-dependencies"]) - {"dev", "comparators"}


def recipe(target, folder):
    """What make would do for a target in a fresh checkout."""
    line = ["make", "--dry-run", target, f"VENV={folder / 'venv'}", "PIP_FLAGS=--index-url X"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return re.findall(r"pip install .*--editable '\.\[(\w+)\]'", done.stdout), done.stdout


def test_the_demo_installs_no_tool_of_the_tests(tmp_path):
    extras, said = recipe("demo", tmp_path)
    assert extras == ["bfv"]
    assert "cipherdag demo" in said
    assert "--index-url X" in said


def test_the_tests_install_everything_at_once(tmp_path):
    extras, _ = recipe("test", tmp_path)
    assert extras == ["dev"]


def for_users():
    """What users install: dependencies, and extras but those of developers."""
    yield from PROJECT["dependencies"]
    for extra, asked in PROJECT["optional-dependencies"].items():
        if extra not in ("comparators", "docs", "dev"):
            yield from asked


def test_what_users_install_has_a_bound_above_and_the_pins_lie_within():
    pinned = {normal(pin[1]): pin[0].split("==")[1] for pin in pins()}
    for text in for_users():
        requirement = Requirement(text)
        operators = {each.operator for each in requirement.specifier}
        assert {">=", "<"} <= operators, text
        version = pinned[normal(requirement.name)]
        assert requirement.specifier.contains(version), f"{text}: {version} is pinned"


def test_every_locked_file_has_a_hash_and_the_pinned_version():
    pinned = {normal(pin[1]): pin[0].split("==")[1] for pin in pins()}
    text = (ROOT / "deploy" / "requirements.txt").read_text("utf-8").replace("\\\n", "")
    locked = {}
    for line in text.splitlines():
        requirement, *hashes = line.split("--hash=")
        parsed = Requirement(requirement)
        assert hashes, line
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", each) for each in hashes), line
        (version,) = parsed.specifier
        locked[normal(parsed.name)] = version.version
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["flare"]]
    assert {normal(Requirement(each).name) for each in asked} <= locked.keys()
    both = locked.keys() & pinned.keys()
    assert {name: locked[name] for name in both} == {name: pinned[name] for name in both}


def test_what_builds_the_package_is_pinned():
    (builder,) = PYPROJECT["build-system"]["requires"]
    assert builder in (ROOT / "constraints.txt").read_text("utf-8").splitlines()


def test_a_release_is_checked_digested_and_signed(tmp_path):
    line = ["make", "--dry-run", "release", "sign", f"VENV={tmp_path / 'venv'}"]
    said = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    steps = [".ci/package dist", "sha256sum", "sigstore sign"]
    positions = [said.index(step) for step in steps]
    assert positions == sorted(positions)
    assert "cyclonedx-py" in said
