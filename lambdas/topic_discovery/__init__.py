"""Tells which topics the source has."""
