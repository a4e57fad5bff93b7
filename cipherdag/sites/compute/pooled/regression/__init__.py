"""Maximum likelihood of regressions over a site's rows: value, score and Hessian at each step."""
