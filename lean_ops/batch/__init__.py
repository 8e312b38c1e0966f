"""Batches: what to read next, what was decided, what came of it, and whether it balances."""
