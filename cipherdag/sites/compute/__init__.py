"""Computations on a site's own rows: batch in, vector out; no network and no keys."""
