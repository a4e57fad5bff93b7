"""Counts, moments and regression steps that sites add up.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""
