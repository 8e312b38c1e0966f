"""Deploys contracts that are handed in."""
