"""Contracts: what a payload must hold to become Curated rows, and how two of them differ."""
