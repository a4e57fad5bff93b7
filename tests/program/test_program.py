"""A plan's program as a site has it installed: the same sources, known parameters, or no run."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import hospital_folders
import msgspec
import pytest

import cipherdag
from cipherdag import FedCMFS, FedPC
from cipherdag.algorithms import registry
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.registry import PROGRAM_ROOMS, algorithm_class, program_digest
from cipherdag.errors import ParameterError, PolicyRefusedError, ProgramMismatchError
from cipherdag.program.program import installed_program
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.program.versions import COMPUTED_WITH, computed_with
from cipherdag.protocol.messages import content_digest
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import read_releases

PACKAGE = Path(cipherdag.__file__).parent
MEMBERS = tuple(Member(name=f"hospital-{k}", identity=bytes([k]) * 32) for k in range(3))
FACTS = Facts(5, 3)
ALGORITHM = '''
"""An algorithm that somebody else wrote."""

from dataclasses import dataclass
from typing import ClassVar

from cipherdag.algorithms.fedpc.algorithm import FedPC


@dataclass(frozen=True, kw_only=True, slots=True)
class Other(FedPC):
    """FedPC under another name.

    Leaks:
        What FedPC does.
    """

    name: ClassVar[str] = "{name}"
    title: ClassVar[str] = "Another one"
    reads: ClassVar[frozenset[str]] = frozenset({reads})
'''


def plan(algorithm="fedpc", **changes):
    about = {"program": program_digest(algorithm), "protection": "masking"}
    return make_plan(MEMBERS, algorithm=algorithm, **(about | changes))


@pytest.fixture
def house(tmp_path, monkeypatch):
    """The program's rooms in a folder of their own, which `digest_of` reads."""
    for room in (*PROGRAM_ROOMS, "cli"):
        shutil.copytree(
            PACKAGE / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ("arrays.py", "predicates.py"):
        shutil.copy(PACKAGE / file, tmp_path)
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "algorithms" / "registry.py"))
    return tmp_path


def digest_of(name="fedpc"):
    return program_digest.__wrapped__(name)


# which sources count


def test_a_digest_is_of_the_sources_wherever_they_lie(house):
    assert digest_of() == program_digest("fedpc")
    assert len(bytes.fromhex(digest_of())) == 32


def test_every_source_of_the_program_s_rooms_changes_the_digest(house):
    files = [file for room in PROGRAM_ROOMS for file in (house / room).rglob("*.py")]
    files += [house / "arrays.py", house / "predicates.py"]
    assert len(files) > 60
    seen = {digest_of()}
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        seen.add(digest_of())
        file.write_bytes(content)
    assert len(seen) == len(files) + 1
    assert digest_of() in seen


def test_a_source_that_is_new_gone_or_moved_changes_the_digest(house):
    seen = {digest_of()}
    new = house / "graphs" / "new.py"
    new.write_text("")
    seen.add(digest_of())
    new.rename(house / "questions" / "new.py")
    seen.add(digest_of())
    (house / "questions" / "new.py").unlink()
    (house / "graphs" / "metrics.py").unlink()
    seen.add(digest_of())
    assert len(seen) == 4


def test_no_other_room_and_no_bytecode_changes_the_digest(house):
    before = digest_of()
    (house / "cli" / "main.py").write_text("nothing")
    (house / "graphs" / "__pycache__").mkdir()
    (house / "graphs" / "__pycache__" / "graph.pyc").write_bytes(b"x")
    (house / "algorithms" / "notes.txt").write_text("x")
    assert digest_of() == before


def test_what_a_generator_runs_through_lies_in_these_rooms():
    """Beside them arrays, predicates, errors, and what draws pages; the last two steer nothing."""
    script = (
        "import sys\n"
        "from importlib import import_module\n"
        "from pkgutil import walk_packages\n"
        "from cipherdag.algorithms.registry import PROGRAM_ROOMS\n"
        "for room in PROGRAM_ROOMS:\n"
        "    package = import_module(f'cipherdag.{room}')\n"
        "    for own in walk_packages(package.__path__, f'{package.__name__}.'):\n"
        "        import_module(own.name)\n"
        "own = [name.split('.') for name in sys.modules if name.startswith('cipherdag.')]\n"
        "print(*sorted({name[1] for name in own} - set(PROGRAM_ROOMS)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["arrays", "errors", "pages", "predicates"]


# algorithms of other packages


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs an algorithm that another distribution defines: its name, and its sources."""
    modules = []

    def install(name, *, module, files, reads="", at="algorithm:Other"):
        site = tmp_path / name
        for place, content in files.items():
            path = site / place
            path.parent.mkdir(parents=True, exist_ok=True)
            code = ALGORITHM.replace("{name}", name).replace("{reads}", f"{{{reads}}}")
            path.write_text(code if content is None else content, "utf-8")
        about = site / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        entry = f"{module}.{at}" if at.startswith("algorithm") else f"{module}{at}"
        (about / "entry_points.txt").write_text(f"[cipherdag.algorithms]\n{name} = {entry}\n")
        monkeypatch.syspath_prepend(str(site))
        modules.append(module)
        return site

    yield install
    for name in list(sys.modules):
        if name.partition(".")[0] in modules:
            del sys.modules[name]
    program_digest.cache_clear()


def test_another_package_s_algorithm_is_found_and_pinned_by_its_files(installed):
    files = {"theirs/__init__.py": "", "theirs/algorithm.py": None, "theirs/deep/more.py": "A = 1"}
    site = installed("other-pc", module="theirs", files=files)
    assert algorithm_class("other-pc").title == registry.title_of("other-pc") == "Another one"
    assert not registry.reads_labels("other-pc")
    seen = {program_digest("other-pc"), program_digest("fedpc")}
    for place in files:
        (site / place).write_text(f"# changed\n{(site / place).read_text()}")
        seen.add(digest_of("other-pc"))
    assert len(seen) == 2 + len(files)


def test_a_foreign_algorithm_s_digest_covers_this_package_too(installed, house):
    installed("other-two", module="theirs2", files={"theirs2/algorithm.py": None})
    before = digest_of("other-two")
    (house / "questions" / "new.py").write_text("")
    assert digest_of("other-two") != before


def test_an_algorithm_in_a_single_file_is_pinned_by_that_file_alone(installed):
    files = {"lonely.py": None, "neighbour.py": "A = 1"}
    site = installed("lonely-pc", module="lonely", files=files, at=":Other")
    before = digest_of("lonely-pc")
    (site / "neighbour.py").write_text("A = 2")
    assert digest_of("lonely-pc") == before
    (site / "lonely.py").write_text("# changed\n" + (site / "lonely.py").read_text())
    assert digest_of("lonely-pc") != before


def test_another_package_s_algorithm_gets_positions_of_labels(installed):
    installed("label-pc", module="labels1", files={"labels1/algorithm.py": None}, reads='"labels"')
    assert registry.reads_labels("label-pc")


def test_no_other_package_takes_the_name_of_an_algorithm_that_is_here(installed):
    installed("fedpc", module="imposter", files={"imposter/algorithm.py": None})
    assert algorithm_class("fedpc") is FedPC


def test_sites_run_a_foreign_algorithm_that_their_policy_names(installed, tmp_path):
    installed("other-run", module="theirs3", files={"theirs3/algorithm.py": None})
    own = importlib.import_module("theirs3.algorithm").Other()
    policy = Policy(algorithms=frozenset({"other-run"}), approve_runs="automatic")
    graphs = []
    for algorithm in (own, FedPC()):
        allowed = policy if algorithm is own else None
        made = hospital_folders.hospitals(tmp_path / algorithm.name, policy=allowed)
        made.installed = True
        program = program_digest(algorithm.name)
        session = made.session(
            made.handlers(), algorithm=algorithm.name, program=program, parameters={}
        )
        facts = Facts(session.open(), 3, min_contributors=3)
        graphs.append(run_program(session, Replay(algorithm.ask(facts))).arcs.tobytes())
        assert len(session.finish()) == 3
        assert session.result
        made.close()
    assert graphs[0] == graphs[1]
    made = hospital_folders.hospitals(tmp_path / "without")
    made.installed = True
    with pytest.raises(PolicyRefusedError, match="does not allow 'other-run'"):
        made.session(made.handlers(), algorithm="other-run").open()
    made.close()


# what a plan may say


def test_an_installed_program_asks_what_the_algorithm_asks():
    own = installed_program(plan(parameters={"alpha": 0.2, "evidence": "vote"}, seed=3), FACTS)
    assert own.algorithm == FedPC(alpha=0.2, evidence="vote")
    assert own.facts is FACTS
    first = own.replay.advance(1, None)
    assert content_digest(first) == content_digest(next(own.algorithm.ask(FACTS)))
    assert not own.replay.ended


def test_parameters_as_a_plan_has_them_make_the_same_algorithm():
    algorithm = FedPC(alpha=0.02, max_cond_size=None, evidence="pooled")
    made = plan(parameters=msgspec.to_builtins(algorithm))
    assert installed_program(made, FACTS).algorithm == algorithm


@pytest.mark.parametrize("program", ["", "00" * 32, "fedpc"])
def test_other_sources_are_refused_by_name(program):
    with pytest.raises(ProgramMismatchError, match="'fedpc' is another program here") as refused:
        installed_program(plan(program=program), FACTS)
    assert "same version" in refused.value.remedy


def test_an_algorithm_that_is_not_installed_is_named():
    with pytest.raises(ParameterError, match="no algorithm named 'magic'"):
        installed_program(msgspec.structs.replace(plan(), algorithm="magic"), FACTS)


OUT_OF_RANGE = [
    ({"alpha": 0.0}, "alpha"),
    ({"alpha": 1.5}, "alpha"),
    ({"alpha": "0.05"}, "alpha"),
    ({"alpha": None}, "alpha"),
    ({"max_cond_size": -7}, "max_cond_size"),
    ({"max_rows": 2**60}, "max_rows"),
    ({"max_rows": True}, "max_rows"),
    ({"voting": {"sepset": "best"}}, "sepset"),
    ({"voting": {"sepset": "max", "seats": 3}}, "no parameter 'seats'"),
    ({"voting": 3}, "voting"),
    ({"test": "magic"}, "test"),
    ({"beta": 1}, "no parameter 'beta'"),
]


@pytest.mark.parametrize(("parameters", "said"), OUT_OF_RANGE)
def test_parameters_out_of_their_range_are_refused(parameters, said):
    with pytest.raises(ParameterError, match=said):
        installed_program(plan(parameters=parameters), FACTS)


@pytest.mark.parametrize("approval", ["manual", "automatic"])
def test_a_site_refuses_them_before_a_person_is_asked(tmp_path, approval):
    made = hospital_folders.hospitals(tmp_path, policy=Policy(approve_runs=approval, reveal="sums"))
    made.installed = True
    session = made.session(made.handlers(), parameters={"alpha": 7.0})
    with pytest.raises(ParameterError) as refused:
        session.open()
    assert refused.value.site == "hospital-0"
    for folder in made.folders.values():
        left = read_releases(folder.ledger_path.read_text("utf-8").splitlines())
        assert {own.kind for own in left} == {"refusal"}
        assert folder.approvals().runs() == []
    made.close()


def test_what_stops_an_algorithm_at_once_is_said_by_its_first_step():
    """The coordinator's own run says it first, with its reason; a site would tell only its kind."""
    own = installed_program(plan("fedcmfs"), FACTS)
    for _ in range(2):
        with pytest.raises(Exception, match="label"):
            own.replay.advance(1, None)
    assert own.algorithm == FedCMFS()


# versions


def test_other_versions_of_libraries_are_warned_of_and_not_refused(caplog):
    versions = computed_with()
    assert set(versions) == set(COMPUTED_WITH)
    installed_program(plan(versions=versions), FACTS)
    installed_program(plan(versions={}), FACTS)
    assert caplog.records == []
    own = installed_program(plan(versions=versions | {"numpy": "0.1", "scipy": "0.2"}), FACTS)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"the plan was made with numpy 0.1, here is {versions['numpy']}",
        f"the plan was made with scipy 0.2, here is {versions['scipy']}",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert own.replay.advance(1, None) is not None


def test_a_library_that_is_not_there_has_no_version():
    assert computed_with(["numpy", "no-such-library"])["no-such-library"] == "not installed"
