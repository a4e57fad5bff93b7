"""Walks each role through its pages in a fresh clone, every command as printed.

    python benchmarks/walk_roles.py [--roles it statistician] [--out walk.json]

A role's page stands in ``docs/roles``; what it lists under *Your pages* is read after the front
page and it. The role's page is followed in the clone itself, each other page in an empty folder.
Installs happen without pip's cache. Prints commands, minutes of the machine and words, code left
out, by role.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from documents import FENCED, Reader, blocks, call_alone  # noqa: E402

ROLES = ("statistician", "it", "data-protection-officer")
FRONT = Path("docs/index.md")
OWN = str(Path(__file__).resolve().relative_to(ROOT))
WORDS_A_MINUTE = 200
ANSWER = """
import json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    exec(compile(json.loads(line), "page", "exec", dont_inherit=True), names)
    print("\\0", flush=True)
"""


def pages(role: str) -> list[Path]:
    """What a person of a role reads, in order."""
    page = Path("docs/roles") / f"{role}.md"
    listed = (ROOT / page).read_text("utf-8").partition("## Your pages")[2]
    found = re.findall(r"^\d\. \[[^\]]*\]\(([^)#]+)", listed, re.MULTILINE)
    return [FRONT, page, *(Path(os.path.normpath(page.parent / own)) for own in found)]


def processor_s() -> float:
    """What all processes that have ended so far have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def words(page: Path) -> int:
    """Words of prose on a page: code, addresses and comments left out."""
    prose = FENCED.sub("", (ROOT / page).read_text("utf-8"))
    prose = re.sub(r"<!--.*?-->|\]\([^)]*\)", " ", prose)
    return len(re.findall(r"\w[\w'-]*", prose))


@dataclass
class Walker(Reader):
    """Follows a page with the programs of a fresh clone, each in a process of its own."""

    clone: Path = field(default_factory=Path)
    commands: int = 0
    python: Any = None

    @property
    def program(self) -> tuple[str, ...]:
        return (str(self.clone / ".venv" / "bin" / "cipherdag"),)

    @staticmethod
    def environment() -> dict[str, str]:
        kept = {name: own for name, own in os.environ.items() if name not in ("PYTHONPATH", "VENV")}
        return {**kept, "OMP_NUM_THREADS": "1", "PIP_NO_CACHE_DIR": "1"}

    def answer(self, line: list[str]) -> tuple[int, str]:
        return call_alone(line, self.program, self.environment())

    def _command(self, block, line):
        self.commands += 1
        if Path(line[0]).name in ("cp", "cd", "cipherdag"):
            super()._command(block, line)
            return
        code, said = call_alone(line[1:], line[:1], self.environment())
        if code:
            raise SystemExit(f"{' '.join(line)} gave {code}:\n{said}")

    def _python(self, block):
        self.commands += 1
        if self.python is None:
            self.python = subprocess.Popen(
                [str(self.clone / ".venv" / "bin" / "python"), "-c", ANSWER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=self.environment(),
            )
            self.started.append(self.python)
        self.python.stdin.write(json.dumps(block.code) + "\n")
        self.python.stdin.flush()
        said = []
        for line in self.python.stdout:
            if line == "\0\n":
                self.printed = "".join(said)
                return
            said.append(line)
        raise SystemExit(f"line {block.line}: Python ended")


def walk(role: str, folder: Path) -> dict[str, Any]:
    """Follow a role's pages in a clone of its own; what it took."""
    clone = folder / role
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    own, began, commands = {}, time.monotonic(), 0
    worked = processor_s()
    # the front page shows what the role's own first commands bring about
    for page in pages(role)[1:]:
        place = clone if page.parent.name == "roles" else clone / "walked" / page.stem
        place.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with Walker(place, clone=clone) as reader:
            for block in blocks(page):
                if block.how.get("shown by", OWN) == OWN:
                    reader.follow(block)
        commands += reader.commands
        own[str(page)] = round(time.monotonic() - started, 1)
        print(f"  {page}: {reader.commands} commands, {own[str(page)]:.0f} s", flush=True)
    read = sum(words(page) for page in pages(role))
    return {
        "role": role,
        "pages": len(pages(role)),
        "commands": commands,
        "machine_min": round((time.monotonic() - began) / 60, 1),
        "processor_min": round((processor_s() - worked) / 60, 1),
        "words": read,
        "reading_min": round(read / WORDS_A_MINUTE),
        "megabytes": sum(p.lstat().st_size for p in clone.rglob("*") if p.is_file()) // 10**6,
        "seconds": own,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = []
    for role in given.roles:
        print(role, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            found.append(walk(role, Path(folder)))
    print(f"\nload {os.getloadavg()[2]:.1f} over the last 15 minutes, {os.cpu_count()} cores\n")
    print("| role | pages | words | minutes of reading | commands | minutes | of the processor |")
    print("|---|---|---|---|---|---|---|")
    for own in found:
        keys = ("role", "pages", "words", "reading_min", "commands", "machine_min")
        keys += ("processor_min",)
        print("| " + " | ".join(str(own[key]) for key in keys) + " |")
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
