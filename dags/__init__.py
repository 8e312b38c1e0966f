"""Airflow's room: loaders at the top, everything they build in `factory/`."""
