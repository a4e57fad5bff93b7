"""Reads the code blocks of a page and does what a reader would do with them.

A comment on the line above a block says how to take it, for instance ``<!-- at: north -->``:

    at: NAME          run it in this folder of the page (a machine of its own)
    in background     start it and leave it running until the page ends
    until: TEXT       repeat it until it prints TEXT
    exit: N           it must end with this code
    beside: PATH      this folder of the repository lies beside the page
    saved as: NAME    the block is the content of this file
    prints            the block is what the block above it prints: every line of it must occur
    shown by: PATH    not run here but by this test or script
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cipherdag.cli import main as cli

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"(?:^<!-- (?P<how>[^\n]*) -->\n)?^```(?P<language>[\w-]*|\{[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
CODE = re.compile(r"code\s+([a-z]+(?:-[a-z]+){8})\b")
ASKED = re.compile(r"^run ([0-9a-f]{8})  WAITS", re.MULTILINE)
READ_ALOUD = re.compile(r"CODE-OF-(\w+)")
FENCED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)  # directives, too
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<(https?://[^>\s]+)>")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$|^\(([\w-]+)\)=$", re.MULTILINE)
NO_SLUG = re.compile(r"[^\w\- ]")
PATIENCE_S = 60.0
THIS = (sys.executable, "-m", "cipherdag")
# what FLARE does to a process outlasts the command
NETWORKED = {"coordinator start", "coordinator sites", "coordinator run", "site start"}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, its line, and how to take it."""

    language: str
    code: str
    line: int
    how: dict[str, str]

    def commands(self):
        """The commands of a shell block, comments and continuations resolved."""
        joined = self.code.replace("\\\n", " ").splitlines()
        return [words for words in (shlex.split(line, comments=True) for line in joined) if words]


def pages():
    """Every page that is written by hand, as a path from the repository's root."""
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
    ]
    return sorted(path.relative_to(ROOT) for path in found if "_build" not in path.parts)


def blocks(path):
    """The fenced blocks of a page in order."""
    text = (ROOT / path).read_text("utf-8")
    return [
        Block(
            language=match["language"],
            code=match["code"],
            line=text.count("\n", 0, match.start("language")) + 1,
            how=_how(match["how"] or ""),
        )
        for match in FENCE.finditer(text)
        if not match["language"].startswith("{")  # a directive of Sphinx
    ]


def links(path):
    """Where the links of a page lead, code left out."""
    prose = re.sub(r"`[^`\n]+`", "", FENCED.sub("", (ROOT / path).read_text("utf-8")))
    return [match[1] or match[2] for match in LINK.finditer(prose)]


def anchors(path):
    """What a link may name behind # on a page: explicit labels, and headings as GitHub slugs."""
    prose = FENCED.sub("", (ROOT / path).read_text("utf-8"))
    found = set()
    for match in HEADING.finditer(prose):
        slug = NO_SLUG.sub("", (match[1] or match[2]).lower()).replace(" ", "-")
        again = sum(slug == own or own.startswith(f"{slug}-") for own in found)
        found.add(f"{slug}-{again}" if slug in found else slug)
    return found


def external():
    """Every address outside the repository, with the pages that name it."""
    found = {}
    for path in pages():
        for target in links(path):
            if "://" in target:
                found.setdefault(target, []).append(str(path))
    return found


def _how(comment):
    parts = (part.strip().partition(": ") for part in comment.split(",") if part.strip())
    return {name: value for name, _, value in parts}


@dataclass
class Reader:
    """Follows a page in a folder of its own; leave it to end what it started."""

    program: ClassVar = THIS

    folder: Path
    names: dict = field(default_factory=lambda: {"__name__": "__main__"})
    codes: dict = field(default_factory=dict)
    asked: str = ""
    printed: str = ""
    started: list = field(default_factory=list)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @staticmethod
    def environment():
        """What every process that it starts gets."""
        return environment()

    def follow(self, block):
        """Run a Python or shell block, or check what the block before it printed."""
        place = self.folder / block.how.get("at", ".")
        place.mkdir(exist_ok=True)
        if "beside" in block.how:
            shutil.copytree(ROOT / block.how["beside"], place / Path(block.how["beside"]).name)
        with contextlib.chdir(place):
            if "prints" in block.how:
                self._compare(block)
            elif "saved as" in block.how:
                file = Path(block.how["saved as"])
                file.touch(0o600)
                file.write_text(block.code, "utf-8")
            elif block.language == "python":
                self._python(block)
            elif block.language == "sh":
                self.printed = ""
                for words in block.commands():
                    self._command(block, [self._heard(word) for word in words])

    def _compare(self, block):
        for line in block.code.splitlines():
            missing = " ".join(line.split()) not in " ".join(self.printed.split())
            if line.strip() and line.strip() != "..." and missing:
                raise AssertionError(f"line {block.line}: {line!r} is not in\n{self.printed}")

    def _python(self, block):
        said = io.StringIO()
        code = compile(block.code, f"line {block.line}", "exec", dont_inherit=True)
        with contextlib.redirect_stdout(said):
            exec(code, self.names)
        self.printed = said.getvalue()

    def _command(self, block, words):
        program, *rest = words
        rest = [found for word in rest for found in (_matches(word) or [word])]
        if program == "cp":
            shutil.copy(*rest)
        elif program == "cd":
            os.chdir(rest[0])
        elif Path(program).name != "cipherdag":
            raise AssertionError(f"line {block.line}: a page may not run {program!r}")
        elif "in background" in block.how:
            self._start(rest)
        else:
            self._cipherdag(block, rest)

    def _start(self, words):
        self.started.append(
            subprocess.Popen(
                [*self.program, *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.environment(),
            )
        )

    def answer(self, words):
        """The exit code of a cipherdag command, and all that it printed."""
        return (call_alone if " ".join(words[:2]) in NETWORKED else call)(words)

    def _cipherdag(self, block, words):
        wanted = block.how.get("until", "")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            code, said = self.answer(words)
            if wanted in said or time.monotonic() > deadline:
                break
            time.sleep(1)
        self.printed += said
        if code != int(block.how.get("exit", "0")) or wanted not in said:
            raise AssertionError(f"line {block.line}: {shlex.join(words)} gave {code}:\n{said}")
        if found := CODE.search(said):
            self.codes.setdefault(_owner(words), found[1])
        if found := ASKED.search(said):
            self.asked = found[1]

    def _heard(self, word):
        """A code that one person read to another by telephone, or the run that waits."""
        if word == "SESSION":
            return self.asked
        return READ_ALOUD.sub(lambda match: self.codes[match[1]], word)


def _matches(word):
    """Files that a word with a star stands for, as a shell would find them."""
    return sorted(map(str, Path().glob(word))) if "*" in word else []


def _owner(words):
    """Whose code a command prints: that of the folder it stands in."""
    return words[words.index("--dir") + 1] if "--dir" in words else Path.cwd().name


def call(words):
    """One cipherdag command in this process: its exit code and all that it printed."""
    said = io.StringIO()
    argv, sys.argv = sys.argv, ["cipherdag", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.main()
    except SystemExit as end:
        return int(end.code or 0), said.getvalue()
    finally:
        sys.argv = argv
    return 0, said.getvalue()


def call_alone(words, program=THIS, env=None):
    """The same in a process of its own, or any other program."""
    done = subprocess.run(
        [*program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1200,
        env=env or environment(),
    )
    return done.returncode, done.stdout


def environment():
    """One thread for each of the many processes, and this checkout's package."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":  # what no test can follow without a network
    for address, named in sorted(external().items()):
        sys.stdout.write(" ".join([address, *named]) + "\n")
