"""Sphinx: pages in Markdown, reference from docstrings, nothing loaded from elsewhere."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

project = "cipherdag"
author = "the cipherdag authors"
copyright = "the cipherdag authors, Apache-2.0"  # noqa: A001 - Sphinx's name
release = version = importlib.metadata.version("cipherdag")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"cipherdag {release}"
html_copy_source = False
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # dataclass attributes stand in the class docstring
napoleon_custom_sections = [("Leaks", "notes_style")]
myst_heading_anchors = 3


def _write_page_for_agents(app: object, error: Exception | None) -> None:
    """Put llms.txt beside the front page, with links to what was built."""
    if error is None and app.builder.format == "html":
        text = Path(app.srcdir, "llms.txt").read_text("utf-8")
        Path(app.outdir, "llms.txt").write_text(text.replace(".md)", ".html)"), "utf-8")


def setup(app: object) -> None:
    """Register what happens once pages are built."""
    app.connect("build-finished", _write_page_for_agents)
