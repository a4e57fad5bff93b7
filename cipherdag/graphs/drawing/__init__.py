"""Pictures of graphs."""

PICTURES = ("svg", "png", "pdf")
