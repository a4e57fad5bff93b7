"""The house as a picture: its floors, its rooms, and the way of one question through them.

    python benchmarks/house_picture.py docs/images/house.svg

Floors come from the import rules, purposes from the rooms' docstrings. A test holds the committed
picture to what this prints.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from architecture import PACKAGE, floors

WIDTH, ROW, LEFT, GAP = 900, 74, 20, 10
WAY = (
    "federation", "program", "algorithms", "questions", "protocol", "sites", "privacy", "results",
)  # fmt: skip
"""Rooms in the order in which one question, and its sum, pass through them."""


def purpose(room: str) -> str:
    """The first sentence of a room's docstring."""
    path = PACKAGE / room / "__init__.py"
    path = path if path.exists() else PACKAGE / f"{room}.py"
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("``", "")


def boxes() -> dict[str, tuple[float, float, float]]:
    """Left, top and width of every room."""
    rows: dict[int, list[str]] = {}
    for room, floor in floors().items():
        rows.setdefault(floor, []).append(room)
    found = {}
    for place, floor in enumerate(sorted(rows)):
        width = (WIDTH - 2 * LEFT - GAP * (len(rows[floor]) - 1)) / len(rows[floor])
        for number, room in enumerate(rows[floor]):
            found[room] = (LEFT + number * (width + GAP), LEFT + place * ROW, width)
    return found


def picture() -> str:
    """The picture as SVG."""
    known = boxes()
    height = max(top for _, top, _ in known.values()) + ROW + LEFT
    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height:g}")
    svg.attrib |= {"role": "img", "font-family": "sans-serif", "font-size": "12"}
    SubElement(svg, "title").text = "The rooms of cipherdag by floor, and the way of one question"
    _shape(svg, "rect", fill="#ffffff", width=WIDTH, height=height)
    for room, (left, top, width) in known.items():
        _box(svg, room, left, top, width)
    indent(svg)
    return tostring(svg, encoding="unicode") + "\n"


def _box(svg: Element, room: str, left: float, top: float, width: float) -> None:
    size = {"width": width, "height": ROW - GAP, "rx": 6}
    _shape(svg, "rect", fill="#eef4fc", stroke="#4a6fa5", x=left, y=top, **size)
    named = _shape(svg, "text", fill="#1b2a41", x=left + 10, y=top + 20)
    named.text = room
    named.set("font-weight", "bold")
    for number, line in enumerate(textwrap.wrap(purpose(room), int(width / 6.2))[:2]):
        _shape(svg, "text", fill="#34495e", x=left + 10, y=top + 37 + 15 * number).text = line
    if room in WAY:
        x, y = left + width - 16, top + 16
        _shape(svg, "circle", fill="#c8590a", cx=x, cy=y, r=10)
        step = _shape(svg, "text", fill="#ffffff", x=x, y=y + 4)
        step.text = str(WAY.index(room) + 1)
        step.set("text-anchor", "middle")


def _shape(svg: Element, kind: str, *, fill: str, stroke: str = "", **places: float) -> Element:
    shape = SubElement(svg, kind, {name: f"{place:g}" for name, place in places.items()})
    shape.attrib |= {"fill": fill} | ({"stroke": stroke} if stroke else {})
    return shape


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
