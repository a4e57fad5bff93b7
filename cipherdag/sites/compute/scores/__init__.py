"""Decomposable scores of graphs guide the local learners of a site."""
