"""Graphs of variables whose common causes may be unmeasured: partial ancestral graphs (PAGs)."""
