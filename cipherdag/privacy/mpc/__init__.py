"""Predicates of sums that nobody opens: four roles find one bit a test, and no more."""
