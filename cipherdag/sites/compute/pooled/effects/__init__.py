"""A site's half of effect estimation: estimating functions of its rows, and refutations."""
