"""Draws the picture of every notebook of the gallery, from what its code leaves behind.

python docs/gallery_pictures.py
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import jupytext

GALLERY = Path(__file__).parent / "gallery"
PICTURES = Path(__file__).parent / "images" / "gallery"
SHOWN = {
    "first-graph": "result",
    "effect-from-a-graph": "found",
    "forbid-edges": "second",
    "sites-that-differ": "pooled",
    "exchange": "learnt",
}
"""Which name of each notebook has the graph to draw."""


def picture(notebook: str) -> str:
    """The drawing of a notebook's graph as SVG that stands alone; runs the notebook's code."""
    names: dict[str, object] = {}
    for cell in jupytext.read(GALLERY / f"{notebook}.md").cells:
        if cell.cell_type == "code" and not cell.source.startswith("%%sh"):
            exec(compile(cell.source, notebook, "exec"), names)  # noqa: S102 - the page's own code
    drawn = names[SHOWN[notebook]].graph._repr_html_()
    style = "".join(re.findall(r"<style>.*?</style>", drawn, re.DOTALL))
    (svg,) = re.findall(r"<svg.*?</svg>", drawn, re.DOTALL)
    head, rest = svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg">{style}{rest}\n'


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for each in SHOWN:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            (PICTURES / f"{each}.svg").write_text(picture(each), "utf-8")
