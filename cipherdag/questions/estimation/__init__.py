"""Questions of effect estimation and of survival analysis."""
