"""DataFrame in, DataFrame out (or Arrow batches in and out): no tables are read or written here."""
