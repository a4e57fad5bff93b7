"""Describes the columns of all sites' rows together, before anything is learnt."""
