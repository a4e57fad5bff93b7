"""Keys: who signs, which pairs agree, and what is sealed, tagged or shared under them."""
