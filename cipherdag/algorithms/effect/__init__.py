"""Estimates the effect of one variable on another over all sites, given what a graph says."""
