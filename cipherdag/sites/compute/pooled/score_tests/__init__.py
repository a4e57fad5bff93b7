"""A site's scores of tests: of two numbers from their residuals, of others from regressions."""
