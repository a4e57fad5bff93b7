"""Regressions over rows that are alike in their discrete variables, group by group."""
