"""Which columns of a site are functions of others, and which rows are no drawn sample."""
