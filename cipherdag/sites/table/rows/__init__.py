"""All rows of a site: where they are held, and a digest of them."""
