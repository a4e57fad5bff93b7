"""No path in the package unpacks, imports or executes bytes that came over the network.

A property of the code: what could do so is not used at all, or stands in a list with its reason.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import cipherdag

PACKAGE = Path(cipherdag.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

DECODES_CODE = {
    *("pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"),
    *("runpy", "code", "codeop", "imp", "tarfile", "zipimport", "yaml", "xmlrpc"),
}
CALLS_CODE = {"eval", "exec", "compile", "__import__", "unpack_archive", "make_archive", "system"}
CALLS_CODE |= {"execv", "execve", "execvp", "spawnv", "popen", "load_module", "exec_module"}

STARTS_PROGRAMS = {
    "deployment/processes.py": "the site's `on-waiting`, which its user alone may change",
    "protocol/engines/engine_process.py": "the engine's process: our own module, no shell",
}
IMPORTS_BY_NAME = {
    "__init__.py": "names of the package's own API",
    "algorithms/evidence/registry.py": "the file of each kind of evidence that it lists",
    "algorithms/registry.py": "algorithms that are installed here, by their entry points",
    "findings/finding.py": "the modules of its own folder",
    "privacy/protections.py": "the file of each protection that it lists",
    "questions/question.py": "the modules of its own folder",
    "sites/answers/registry.py": "the modules of its own folder",
    "sites/compute/ci_tests/ci_test.py": "the modules of its own folder",
    "sites/table/reading.py": "the file of each source that it lists",
}
READS_ARCHIVES = {
    "audit/bag.py": "a bundle that somebody checks, of which nothing is written to disk",
    "sites/table/excel_file.py": "a site's own data file",
}
OF_FLARE = {
    "nvflare.fuel.f3.comm_error",
    "nvflare.fuel.f3.communicator",
    "nvflare.fuel.f3.drivers.aio_conn",
    "nvflare.fuel.f3.drivers.aio_tcp_driver",
    "nvflare.fuel.f3.drivers.connector_info",
    "nvflare.fuel.f3.drivers.net_utils",
    "nvflare.fuel.f3.endpoint",
    "nvflare.fuel.f3.message",
    "nvflare.fuel.f3.sfm.prefix",
}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def called(tree):
    """Names of what is called: of a function, or the last part of a method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            target = node.func
            if isinstance(target, ast.Name):
                yield target.id, node
            elif isinstance(target, ast.Attribute):
                whole = ast.unparse(target.value)
                if whole not in ("re", "torch"):  # patterns, and tensors, are compiled too
                    yield target.attr, node


@cache
def files():
    """Of every file its name, what it imports and what it calls."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in FILES}
    return [
        (path.relative_to(PACKAGE).as_posix(), {*imported(tree)}, [*called(tree)])
        for path, tree in trees.items()
    ]


def test_nothing_that_decodes_code_is_imported():
    found = {
        (name, module)
        for name, modules, _ in files()
        for module in modules
        if module.split(".")[0] in DECODES_CODE
    }
    assert found == set()


def test_nothing_that_runs_text_or_unpacks_archives_is_called():
    found = {(name, call) for name, _, calls in files() for call, _ in calls if call in CALLS_CODE}
    assert found == set()


@pytest.mark.parametrize(
    ("module", "listed"),
    [("subprocess", STARTS_PROGRAMS), ("importlib", IMPORTS_BY_NAME), ("zipfile", READS_ARCHIVES)],
)
def test_what_starts_imports_or_opens_archives_stands_in_a_list(module, listed):
    harmless = {"importlib.metadata", "importlib.resources", "importlib.util"}
    found = {
        name
        for name, modules, _ in files()
        for own in modules
        if own.split(".")[0] == module and own not in harmless
    }
    # `from importlib import metadata` and the like are told by what is called
    if module == "importlib":
        found = {n for n, _, calls in files() if any(c == "import_module" for c, _ in calls)}
    assert found == set(listed)


def test_programs_are_started_without_a_shell_and_isolated():
    """Every Python that is started ignores variables, user folders and where it is started."""
    for name, _, calls in files():
        if name not in STARTS_PROGRAMS:
            continue
        for call, node in calls:
            if call not in ("Popen", "run"):
                continue
            assert not any(word.arg == "shell" for word in node.keywords), name
            assert "'-I'" in ast.unparse(node) or "[program, session]" in ast.unparse(node), name


def test_of_flare_the_transport_alone_is_imported():
    """No cell, job, controller, executor or command of FLARE, and no decoder of its objects."""
    found = {m for _, modules, _ in files() for m in modules if m.split(".")[0] == "nvflare"}
    assert found == OF_FLARE


def test_local_connections_carry_bytes_and_no_objects():
    """`multiprocessing.connection` pickles what is sent whole, and unpickles what comes."""
    for name, modules, calls in files():
        if "multiprocessing.connection" not in modules:
            continue
        found = {call for call, _ in calls} & {"send", "recv"}
        # the engine's process sends on its link, which takes bytes
        assert found <= ({"send"} if name.endswith("flare_site.py") else set()), name


def test_arrays_and_tensors_are_read_from_no_file():
    for name, _, calls in files():
        for call, node in calls:
            if call in ("load", "fromfile", "loads") and isinstance(node.func, ast.Attribute):
                assert ast.unparse(node.func.value) not in ("np", "numpy", "torch"), name


def test_the_lists_would_notice():
    tree = ast.parse("import pickle\npickle.loads(x)\neval(y)\nshutil.unpack_archive(z)")
    assert set(imported(tree)) & DECODES_CODE == {"pickle"}
    assert {call for call, _ in called(tree)} & CALLS_CODE == {"eval", "unpack_archive"}
