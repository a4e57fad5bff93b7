"""Questions that the coordinator asks every site, and how their answers and sums are laid out."""
