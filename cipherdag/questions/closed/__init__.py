"""Sums that stay closed: of which of them a verdict is true, and which pair is stronger."""
