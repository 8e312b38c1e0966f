"""Moves circuit breakers by time."""
