"""Neural local learners of Fed-CD."""
