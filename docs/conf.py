"""Sphinx: pages in Markdown, reference from docstrings, nothing loaded from elsewhere."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import jupytext

project = "cipherdag"
author = "the cipherdag authors"
copyright = "the cipherdag authors, Apache-2.0"  # noqa: A001 - Sphinx's name
release = version = importlib.metadata.version("cipherdag")
extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"),
    "sphinx_click",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"cipherdag {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # dataclass attributes stand in the class docstring
napoleon_custom_sections = [("Leaks", "notes_style")]
myst_heading_anchors = 3
myst_enable_extensions = ["html_image"]  # thumbnails of the gallery
FINDINGS = (
    *("LearntGraph", "LearntPAG", "SelectedFeatures", "CheckedGraph", "Description"),
    *("SurvivalAnalysis", "EstimatedEffect"),
)
FINDING = (
    *(":members:", ":inherited-members:"),
    ":exclude-members: tables, kind, template, promise, causal",
)
autosummary_context = {
    "page_options": {
        "else": (":exclude-members: __init__", ":show-inheritance:"),
        "Federation": (":members: simulate, split, connect, run, ask",),
        "Run": (":members:", ":inherited-members:"),
        "Knowledge": (":members: loads, over",),
        "Identified": (":members: chosen", ":exclude-members: __init__"),
        **dict.fromkeys(("MixedGraph", "CausalGraph", "PartialMixedGraph", "PAG"), (":members:",)),
        **dict.fromkeys(("Schema", "Policy"), (":members: load, loads, dumps",)),
        **dict.fromkeys(FINDINGS, FINDING),
    }
}
"""What `_templates` shows of each class: members by name, or its fields alone."""


def _write_page_for_agents(app: object, error: Exception | None) -> None:
    """Put llms.txt beside the front page, with links to what was built."""
    if error is None and app.builder.format == "html":
        text = Path(app.srcdir, "llms.txt").read_text("utf-8")
        Path(app.outdir, "llms.txt").write_text(text.replace(".md)", ".html)"), "utf-8")


def _write_notebooks(app: object) -> None:
    """Make a notebook to download of every page of the gallery."""
    pages = Path(app.srcdir, "gallery")
    (pages / "notebooks").mkdir(exist_ok=True)
    for page in set(pages.glob("*.md")) - {pages / "index.md"}:
        jupytext.write(jupytext.read(page), pages / "notebooks" / f"{page.stem}.ipynb")


def setup(app: object) -> None:
    """Register what happens before pages are read, and once they are built."""
    app.connect("builder-inited", _write_notebooks)
    app.connect("build-finished", _write_page_for_agents)
