"""Shares, counts and sums of single columns, under the threshold rule."""
