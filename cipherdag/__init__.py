"""Secure federated causal discovery."""
