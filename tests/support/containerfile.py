"""The instructions of a Containerfile, in order."""

import re
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction: its name, and all behind it on one line."""

    name: str
    text: str


def instructions(path):
    """Every instruction of a file, comments left out and continued lines joined."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not re.match(r"\s*#", line)]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [Instruction(*line.strip().split(" ", 1)) for line in joined if line.strip()]
