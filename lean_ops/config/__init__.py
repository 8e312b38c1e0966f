"""Reviewed data: topics and environments as files, and everything that checks them."""
