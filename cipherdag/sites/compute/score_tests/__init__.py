"""A site's half of the score test: scores and null variances of its rows."""
