"""Builds the DAGs: one per topic, and those of the operators."""
