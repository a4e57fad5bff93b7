"""Scores of graphs, and the local learners that use them."""
