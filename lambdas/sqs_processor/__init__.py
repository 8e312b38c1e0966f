"""SQS → Firehose."""
