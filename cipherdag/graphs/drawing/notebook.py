"""A causal graph in a notebook: its drawing, and its edges in words."""

from __future__ import annotations

from cipherdag.graphs.drawing.communities import overview
from cipherdag.graphs.drawing.picture import graph_picture, overview_picture
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.pages.rendering import render


def notebook_html(graph: MixedGraph) -> str:
    """HTML without scripts; above 100 variables the drawing shows communities."""
    shown = overview(graph)
    picture = overview_picture(shown, graph) if shown.collapsed else graph_picture(graph)
    return render("notebook.html.j2", graph=graph, picture=picture)
