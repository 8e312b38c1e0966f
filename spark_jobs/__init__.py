"""PySpark jobs: thin entry points over the batch protocol, and transforms that take and give DataFrames."""
