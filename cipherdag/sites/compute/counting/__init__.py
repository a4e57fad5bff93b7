"""Contingency tables of a site's discrete columns are counted here."""
