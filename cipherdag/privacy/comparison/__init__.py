"""Is a blinded sum inside a public interval? Two holders of keys find the bit, and no more."""
