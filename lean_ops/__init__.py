"""lean-ops: Pub/Sub topics into governed Apache Iceberg tables, every record accounted for."""

__version__ = "0.1.0"
