"""Methods of evidence test conditional independence over all sites by sums of their answers."""
