"""Counts, moments and regression steps that sites add up."""
