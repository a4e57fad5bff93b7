"""Neural networks learn the edge beliefs of a site in Fed-CD."""
