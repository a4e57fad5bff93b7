"""Conditional-independence tests are computed here in batches on one site's rows."""
