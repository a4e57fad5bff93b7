"""The container's steps and the service's unit: what can be said of them without running either."""

import json
import re
import shutil
import subprocess
import tomllib

import pytest
from containerfile import instructions
from documents import ROOT, blocks

from cipherdag.cli.main import cli
from cipherdag.errors import CipherdagError

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
STEPS = instructions(DEPLOY / "Containerfile")
UNIT = (DEPLOY / "cipherdag@.service").read_text("utf-8")
PAGE = (ROOT / "docs" / "roles" / "it.md").read_text("utf-8")
MOST_EXPOSED = 2.0  # of 10, by systemd's own count


def texts(name):
    return [step.text for step in STEPS if step.name == name]


# the container


def test_the_steps_are_those_that_the_gate_can_follow():
    """Also: nothing is fetched by ADD, and no step changes its shell."""
    known = {"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    assert {step.name for step in STEPS} <= known
    assert STEPS[0].name == "FROM"


def test_the_base_is_named_in_full_and_its_python_is_one_of_ours():
    named = {text.split()[0] for text in texts("FROM")}
    (base,) = named
    version = re.fullmatch(r"docker\.io/library/python:(3\.\d+)-slim-[a-z]+", base)[1]
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_what_is_copied_is_there_and_all_that_the_build_needs():
    copied = []
    for text in texts("COPY"):
        first, *rest = text.split()
        if not first.startswith("--from="):
            copied += [first, *rest[:-1]]
    assert all((ROOT / source).exists() for source in copied)
    sent = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in sent if line.startswith("!")} == set(copied)
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]} <= set(copied)


def test_installed_files_are_held_to_hashes_and_the_build_to_pins():
    (line,) = (text for text in texts("RUN") if "pip install" in text)
    all_else, own = re.findall(r"pip install (.*?)(?= &&|$)", line)
    given = dict(text.split("=", 1) for text in texts("ARG"))
    assert given["LOCK"] == '"--require-hashes --requirement requirements.txt"'
    assert all_else.endswith("$LOCK")
    assert own.endswith("--no-deps --constraint constraints.txt .")
    assert all("--no-cache-dir" in each for each in (all_else, own))
    extras = re.search(r"\.\[([\w,]+)\]", (DEPLOY / "Containerfile").read_text("utf-8"))[1]
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    hashed = [text for text in blocks_with_pip() if "systemctl" in text]
    assert hashed
    assert all("--require-hashes --requirement deploy/requirements.txt" in text for text in hashed)


def blocks_with_pip():
    return [
        text for text in re.findall(r"```.*?\n(.*?)```", PAGE, re.DOTALL) if "pip install" in text
    ]


def test_it_runs_as_a_user_without_rights_in_the_site_s_folder():
    (user,) = texts("USER")
    assert int(user) > 1000
    assert any(f"useradd --uid {user} " in text for text in texts("RUN"))
    assert f"The folder belongs to user {user} " in PAGE
    command = json.loads(texts("ENTRYPOINT")[0]) + json.loads(texts("CMD")[0])
    assert command == ["cipherdag", "site", "start", "--dir", *texts("VOLUME")]
    assert texts("WORKDIR")[-1:] == texts("VOLUME")
    assert STEPS.index(("USER", user)) > max(n for n, own in enumerate(STEPS) if own.name == "RUN")


# the service


def test_the_unit_starts_what_exists_and_waits_for_a_person():
    start = re.search(r"^ExecStart=\S+/cipherdag (.+)$", UNIT, re.MULTILINE)[1]
    for role in ("site", "coordinator"):
        words = start.replace("${ROLE}", role).split()
        command = cli
        for word in words[:2]:
            command = command.commands[word]
        assert any(words[2] in option.opts for option in command.params)
    ends = re.search(r"^RestartPreventExitStatus=(.+)$", UNIT, re.MULTILINE)[1].split()
    codes = {error.exit_code for error in every(CipherdagError)}
    assert set(map(int, ends)) <= codes
    assert 5 not in map(int, ends)  # the coordinator is away: try again


def every(error):
    yield error
    for own in error.__subclasses__():
        yield from every(own)


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that is there, since systemd looks for it."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    path = tmp_path / "cipherdag@.service"
    path.write_text(UNIT.replace("/opt/cipherdag/bin/cipherdag", "/bin/true"), "utf-8")
    return path


def analyze(*words):
    line = ["systemd-analyze", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def drop_in():
    (shown,) = (b.code for b in blocks("docs/roles/it.md") if "port.conf" in b.code)
    return shown


def test_systemd_takes_the_unit_and_the_drop_in_of_the_page(unit):
    folder = unit.with_name("cipherdag@coordinator.service.d")
    folder.mkdir()
    (folder / "port.conf").write_text(drop_in(), "utf-8")
    found = analyze("verify", "--man=no", unit.with_name("cipherdag@coordinator.service"), unit)
    assert found.returncode == 0, found.stderr
    assert "cipherdag@" not in found.stderr, found.stderr


def test_systemd_notices_what_is_wrong(unit):
    unit.write_text(unit.read_text("utf-8").replace("UMask=0077", "UMask=what"), "utf-8")
    found = analyze("verify", "--man=no", unit)
    assert "mode value" in found.stderr


def test_systemd_finds_little_that_the_service_could_do_without(unit):
    found = analyze("security", "--offline=true", "--no-pager", unit)
    level = re.search(r"exposure level for \S+: ([\d.]+)", found.stdout)
    if level is None:
        pytest.skip("this systemd-analyze reviews no files")
    assert float(level[1]) <= MOST_EXPOSED, found.stdout
