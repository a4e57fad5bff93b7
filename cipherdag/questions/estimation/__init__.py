"""Questions whose sums estimate an effect."""
