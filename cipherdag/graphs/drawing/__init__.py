"""Pictures of graphs."""

PICTURES = ("svg", "png", "pdf")
"""The formats that a picture is written in."""
