"""Questions of the score test: the sums of scores and variances, and threshold tests on them."""
