"""Curves, heat maps, forest plots and tables that reports show."""
