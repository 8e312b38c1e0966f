"""Firehose's error prefix → `firehose_errors`."""
