"""Conditional-independence tests on one site's rows, batched on torch."""
