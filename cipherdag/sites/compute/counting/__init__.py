"""Contingency tables of a site's discrete columns."""
