"""Adapters: the only place that talks to AWS (or its emulation) and to the Iceberg catalog."""
