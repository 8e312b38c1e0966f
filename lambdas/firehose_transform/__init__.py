"""Routes each Firehose record to its table."""
