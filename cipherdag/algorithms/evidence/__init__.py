"""Conditional-independence tests over all sites, from sums: one file for each kind of evidence."""
