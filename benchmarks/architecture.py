"""The house, measured from its imports: floors, circles, imports upwards, sizes.

    python benchmarks/architecture.py [--json] [--gate]

A room is a folder of ``cipherdag/``, or a module of its root. Imports inside functions count like
all others, and those under ``TYPE_CHECKING``, of which nothing runs, where circles with types and
circles between nested folders are counted. With ``--gate`` the exit code is 1 where a limit is
passed; `LIMITS` and `BUDGETS` have them.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import json
import statistics
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import networkx as nx
import numpy as np

PACKAGE = Path(__file__).resolve().parents[1] / "cipherdag"
RULES = PACKAGE.parent / ".importlinter"
LIMITS = {
    "levels": 10,
    "circles": 0,
    "circles between files": 0,
    "circles with types counted": 0,
    "circles between nested folders": 0,
    "upward imports": 0,
    "constants defined twice": 0,
    "vague identifiers": 0,
    "modules in the root": 6,
    "modules in the largest folder": 20,
    "lines of the longest file": 400,
    "lines of the longest function": 70,
    "letters of the longest name of a test": 60,
}
BUDGETS = {
    "algorithms": 14523,
    "audit": 1719,
    "cli": 4863,
    "deployment": 1844,
    "federation": 1849,
    "findings": 4235,
    "graphs": 6252,
    "pages": 405,
    "privacy": 4662,
    "program": 381,
    "protocol": 5402,
    "questions": 5741,
    "results": 1516,
    "sites": 27292,
    "statistics": 1772,
    "the root": 975,
}
"""Lines that each room may have. One rises only with a decision record that says what for."""


VAGUE = frozenset(
    ("own", "told", "found", "alike", "beside", "apart", "moved", "kept", "known", "way", "place")
)
PLAIN_ROOMS = (
    *("algorithms.evidence", "audit", "cli", "deployment", "federation", "findings", "pages"),
    *("privacy", "program", "questions", "results", "statistics", "sites.answers", "sites.compute"),
    *("sites.drafts", "sites.policy", "sites.study", "sites.table"),
)
"""Where no name that is bound may be one of `VAGUE`."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module by another, both dotted without the package's name."""

    source: str
    target: str
    typing: bool


def modules(package: Path) -> dict[str, Path]:
    """Every module by its dotted name without the package's; a folder's face by the folder's."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(name: str, path: Path, known: set[str]) -> list[Import]:
    """The imports of one module, those inside functions included."""
    tree = ast.parse(path.read_text("utf-8"))
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        for target in _targets(node):
            parts = target.split(".")
            while parts and ".".join(parts) not in known:
                parts.pop()  # the last part names a definition
            if parts and ".".join(parts) != name:
                found.add(Import(name, ".".join(parts), id(node) in typing))
    return sorted(found, key=lambda own: (own.source, own.target, own.typing))


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module == PACKAGE.name:
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE.name}."):
        module = str(node.module).partition(".")[2]
        return [f"{module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Import):
        prefix = f"{PACKAGE.name}."
        return [a.name.removeprefix(prefix) for a in node.names if a.name.startswith(prefix)]
    return []


def circles(pairs: set[tuple[str, str]]) -> list[list[str]]:
    """The groups of nodes that import each other in a loop."""
    graph = nx.DiGraph(pair for pair in pairs if pair[0] != pair[1])
    return [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]


def room(module: str) -> str:
    """The room of a module: the first part of its name."""
    return module.partition(".")[0]


def folder(module: str, known: dict[str, Path]) -> str:
    """The folder that a module lies in; a module of the root stands for itself."""
    alone = known[module].name == "__init__.py" or "." not in module
    return module if alone else module.rpartition(".")[0]


def floors(rules: Path = RULES) -> dict[str, int]:
    """The floor of every room, 0 for the top, as the import rules have them."""
    parser = configparser.ConfigParser()
    parser.read(rules)
    layers = parser["importlinter:contract:floors"]["layers"].split("\n")
    lines = [line for line in layers if line.strip()]
    return {name.strip(): n for n, line in enumerate(lines) for name in line.split("|")}


def upwards(found: list[Import]) -> list[Import]:
    """Imports of a room on the same floor or a higher one, those for types alone included."""
    floor = floors()
    return [
        own
        for own in found
        if room(own.source) != room(own.target)
        and floor[room(own.target)] <= floor[room(own.source)]
    ]


def vague_identifiers(paths: dict[str, Path]) -> list[str]:
    """Names bound in the rooms of statistics that do not say what they hold, by module and line."""
    vague = []
    for module, path in paths.items():
        if f"{module}.".startswith(tuple(f"{room}." for room in PLAIN_ROOMS)):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                name = _bound(node).strip("_")
                if name in VAGUE:
                    vague.append(f"{module}:{getattr(node, 'lineno', 0)} {name}")
    return vague


def _bound(node: ast.AST) -> str:
    """The name that a node defines, or nothing."""
    if isinstance(node, ast.Name | ast.Attribute):
        stored = isinstance(node.ctx, ast.Store)
        return (node.id if isinstance(node, ast.Name) else node.attr) if stored else ""
    if isinstance(node, ast.arg):
        return node.arg
    named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return node.name if isinstance(node, named) else ""


def sizes(paths: list[Path]) -> dict[str, float]:
    """Lines of files and of functions: median, 90th percentile, most."""
    files, functions = [], []
    for path in paths:
        text = path.read_text("utf-8")
        files.append(text.count("\n"))
        functions += [
            node.end_lineno - node.lineno + 1
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
        ]
    figures: dict[str, float] = {"lines": sum(files)}
    for what, counts in (("file", files), ("function", functions)):
        figures[f"lines of the median {what}"] = statistics.median(counts)
        figures[f"lines of the 90 % {what}"] = float(np.quantile(counts, 0.9))
        figures[f"lines of the longest {what}"] = max(counts)
    return figures


def tests(root: Path) -> list[str]:
    """The names of all tests below a folder's `tests`, without `test_`."""
    files = (root / "tests").rglob("test_*.py")
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    return [n.name[5:] for n in nodes if isinstance(n, ast.FunctionDef) and n.name[:5] == "test_"]


def room_lines(known: dict[str, Path]) -> dict[str, int]:
    """Lines of every room; the modules of the root are one."""
    counts: Counter[str] = Counter()
    for name, path in known.items():
        inside = path.parent != PACKAGE
        counts[room(name) if inside else "the root"] += path.read_text("utf-8").count("\n")
    return dict(counts)


def constants_twice(known: dict[str, Path]) -> list[str]:
    """Constants that two modules define by one name and one literal, with these modules."""
    where: dict[tuple[str, str], list[str]] = {}
    for name, path in known.items():
        for node in ast.parse(path.read_text("utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            if len(targets) != 1 or not isinstance(targets[0], ast.Name) or node.value is None:
                continue
            computed = any(isinstance(n, ast.Name | ast.Call) for n in ast.walk(node.value))
            if targets[0].id.isupper() and not computed:
                where.setdefault((targets[0].id, ast.unparse(node.value)), []).append(name)
    return [
        f"{constant} = {value}: {', '.join(modules)}"
        for (constant, value), modules in where.items()
        if len(modules) > 1
    ]


def measure(package: Path = PACKAGE) -> dict[str, object]:
    """All figures, and the circles and upward imports by name."""
    known = modules(package)
    found = [
        own
        for name, path in known.items()
        if name != "__init__"  # the face hands names on from every floor
        for own in imports(name, path, set(known))
    ]
    running = [own for own in found if not own.typing]
    between = {(room(own.source), room(own.target)) for own in running}
    between = {pair for pair in between if pair[0] != pair[1]}
    nested = {(folder(own.source, known), folder(own.target, known)) for own in found}
    rooms = circles(between)
    files = circles({(own.source, own.target) for own in running})
    typed = circles({(own.source, own.target) for own in found})
    up = upwards(found)
    twice = constants_twice(known)
    inside = Counter(folder(name, known) for name in known if known[name].name != "__init__.py")
    vague = vague_identifiers(known)
    root = [name for name in known if "." not in name and known[name].parent == package]
    return {
        "rooms": len({room(name) for name in known if name != "__init__"}),
        "levels": 0 if rooms else _levels(between),
        "arrows between rooms": len(between),
        "circles": len(rooms),
        "circles between files": len(files),
        "circles with types counted": len(typed),
        "circles between nested folders": len(circles(_strangers(nested))),
        "upward imports": len(up),
        "constants defined twice": len(twice),
        "vague identifiers": len(vague),
        "imports for types alone": len(found) - len(running),
        "modules": len(known),
        "modules in the root": len(root),
        "modules in the largest folder": max(n for where, n in inside.items() if where),
        **sizes(list(known.values())),
        "letters of the longest name of a test": max(map(len, tests(package.parent)), default=0),
        **{f"lines of {name}": count for name, count in sorted(room_lines(known).items())},
        "named": {
            "circles": rooms,
            "circles between files": files,
            "circles with types counted": typed,
            "circles between nested folders": circles(_strangers(nested)),
            "upward imports": [asdict(own) for own in up],
            "constants defined twice": twice,
            "vague identifiers": vague,
        },
    }


def _strangers(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Pairs of folders of which neither holds the other."""
    return {
        (a, b)
        for a, b in pairs
        if not f"{a}.".startswith(f"{b}.") and not f"{b}.".startswith(f"{a}.")
    }


def _levels(pairs: set[tuple[str, str]]) -> int:
    graph = nx.DiGraph(pairs)
    return nx.dag_longest_path_length(graph) + 1


def limits() -> dict[str, int]:
    """All limits by the name of their figure."""
    return LIMITS | {f"lines of {name}": most for name, most in BUDGETS.items()}


def exceeded(figures: dict[str, object], package: Path = PACKAGE) -> list[str]:
    """The limits that are passed, in words; a room without a budget has one of 0."""
    rooms = {f"lines of {name}": 0 for name in room_lines(modules(package))}
    return [
        f"{name}: {figures[name]}, at most {most}"
        for name, most in (rooms | limits()).items()
        if int(str(figures.get(name, 0))) > most
    ]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="Print a JSON object.")
    parser.add_argument("--gate", action="store_true", help="Exit with 1 above a limit.")
    chosen = parser.parse_args()
    figures = measure()
    if chosen.json:
        print(json.dumps(figures, indent=2))
    else:
        named = figures.pop("named")
        for name, own in named.items():
            for which in own:
                print(f"{name}: {which}")
        most = limits()
        for name, figure in figures.items():
            limit = f"   (at most {most[name]})" if name in most else ""
            print(f"{name:<40} {figure:>8g}{limit}")
    over = exceeded(figures)
    if chosen.gate and over:
        sys.exit("\n".join(over))


if __name__ == "__main__":
    main()
