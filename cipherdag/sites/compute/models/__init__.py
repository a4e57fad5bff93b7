"""Likelihoods, estimating functions and their derivatives, summed over a site's rows."""
