"""Every remedy that the package gives, read from its source.

A remedy is a text that reaches the `remedy` of an error or of a finding. Where the text is put
together, a hole stands for what is put in.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from documents import ROOT

HOLE = "{}"
PARAMETERS = ("remedy", "default_remedy", "fix")
"""Names of what hands on the remedy of another error."""


@dataclass(frozen=True)
class Remedy:
    """A text with holes, and the file and line that hold it."""

    text: str
    place: str

    def matches(self, said: str) -> bool:
        """Whether an error said this."""
        parts = map(re.escape, self.text.split(HOLE))
        return re.fullmatch(".*".join(parts), said, re.DOTALL) is not None


class _Reader:
    """Reads the texts of expressions in one file, through names, calls and imports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        self.imported = {}
        self.values: dict[str, list[ast.expr]] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cipherdag"):
                self.imported |= {each.asname or each.name: node.module for each in node.names}
            elif isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
        self._assignments(self.nodes, self.values)
        for name, value in [*self._looped()]:
            self.values.setdefault(name, []).append(value)

    def _looped(self):
        """What the names of a loop over a constant stand for, by name."""
        for node in self.nodes:
            if isinstance(node, ast.For | ast.comprehension):
                over = node.iter
                pairs = isinstance(over, ast.Call) and getattr(over.func, "attr", "") == "items"
                name = getattr(over.func.value if pairs else over, "id", "")
                for value in self.values.get(name, ()):
                    each = (
                        zip(value.keys, value.values, strict=True)
                        if isinstance(value, ast.Dict)
                        else ()
                    )
                    items = [*map(_Pair, each)] if pairs else getattr(value, "elts", ())
                    for item in items:
                        yield from _unpacked(node.target, item)

    @staticmethod
    def _assignments(nodes, found) -> None:
        for each in nodes:
            if isinstance(each, ast.Assign):
                for target in each.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(each.value)
            elif isinstance(getattr(each, "target", None), ast.Name) and hasattr(each, "value"):
                found.setdefault(each.target.id, []).append(each.value)

    def texts(self, node, seen=()):
        """The texts that an expression can be, each with its line."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
            yield node.value, node.lineno
        elif isinstance(node, ast.JoinedStr | ast.BinOp):
            yield self._part(node), node.lineno
        elif isinstance(node, ast.Name):
            yield from self._named(node.id, seen)
        elif isinstance(node, ast.Call):
            yield from self._called(node, seen)
        for inner in self._choices(node):
            yield from self.texts(inner, seen)

    @staticmethod
    def _choices(node):
        """The expressions of which one is the value of another."""
        if isinstance(node, ast.IfExp):
            return [node.body, node.orelse]
        if isinstance(node, ast.BoolOp | ast.Dict):
            return node.values
        if isinstance(node, ast.GeneratorExp):
            return [node.elt]
        return node.elts if isinstance(node, ast.Tuple) else []

    @staticmethod
    def _part(node):
        """A text with holes."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(map(_Reader._part, node.values))
        if isinstance(node, ast.BinOp):
            return _Reader._part(node.left) + _Reader._part(node.right)
        return HOLE

    def _named(self, name, seen):
        if (self.path, name) in seen:
            return
        seen = (*seen, (self.path, name))
        if name in self.imported:
            yield from self._elsewhere(name, "_named", seen)
        elif name in self.values:
            for value in self.values[name]:
                yield from self.texts(value, seen)
        elif name in self.functions:
            yield from self._returned(name, seen)

    def _called(self, node, seen):
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr in ("format", "get"):
                for text, line in self.texts(function.value, seen):
                    yield re.sub(r"\{\w+\}", HOLE, text), line
                return
            name = function.attr
        else:
            name = getattr(function, "id", "")
            if name == "next":
                for each in node.args:
                    yield from self.texts(each, seen)
        if name in self.functions:
            yield from self._returned(name, seen)
        elif name in self.imported:
            yield from self._elsewhere(name, "_returned", seen)

    def _elsewhere(self, name, read, seen):
        """What another file of the package says under an imported name."""
        other = reader(ROOT / (self.imported[name].replace(".", "/") + ".py"))
        if other is not None:
            for text, line in getattr(other, read)(name, seen):
                yield text, (other, line) if isinstance(line, int) else line

    def _returned(self, name, seen):
        if name not in self.functions or (self.path, name, "called") in seen:
            return
        for each in ast.walk(self.functions[name]):
            if isinstance(each, ast.Return) and each.value is not None:
                yield from self.texts(each.value, (*seen, (self.path, name, "called")))

    def _values(self):
        """The expressions that reach a remedy in this file."""
        for node in self.nodes:
            names = [getattr(target, "id", "") for target in getattr(node, "targets", ())]
            names.append(getattr(getattr(node, "target", None), "id", ""))
            if (isinstance(node, ast.keyword) and node.arg == "remedy") or (
                isinstance(node, ast.Assign | ast.AnnAssign) and "default_remedy" in names
            ):
                yield node.value

    def remedies(self):
        """The texts that reach a remedy in this file, each with the file and line that hold it."""
        for value in self._values():
            yield from self.texts(value)

    def unread(self):
        """The expressions of which no text is read, and that are no remedy of another error."""
        for value in self._values():
            handed_on = getattr(value, "attr", getattr(value, "id", "")) in PARAMETERS
            if not handed_on and not [*self.texts(value)]:
                yield f"{self.path.relative_to(ROOT)}:{value.lineno}: {ast.unparse(value)}"


class _Pair:
    """A key of a dictionary and its value."""

    def __init__(self, both):
        self.elts = both


def _unpacked(target, value):
    """Names of a loop, each with the expression that it stands for."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        for inner, part in zip(target.elts, getattr(value, "elts", ()), strict=False):
            yield from _unpacked(inner, part)


@cache
def reader(path):
    return _Reader(path) if path.is_file() else None


@cache
def readers():
    """Of the files that give a remedy; what they name elsewhere is read where it is met."""
    paths = sorted((ROOT / "cipherdag").rglob("*.py"))
    return [reader(path) for path in paths if "remedy" in path.read_text("utf-8")]


def every_remedy():
    """Every remedy of the package once, wherever it is given."""
    found = {}
    for file in readers():
        for text, line in file.remedies():
            source, number = line if isinstance(line, tuple) else (file, line)
            place = f"{source.path.relative_to(ROOT)}:{number}"
            found.setdefault(text, Remedy(text, place))
    return tuple(found.values())


def unread():
    """Places where a remedy is made in a way that this module does not read."""
    return [place for file in readers() for place in file.unread()]
