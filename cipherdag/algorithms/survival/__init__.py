"""Times until an event over all sites: curves, the log-rank test and hazard ratios."""
