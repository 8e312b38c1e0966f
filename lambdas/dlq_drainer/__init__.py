"""Dead-letter queues → `dlq_errors` and the archive."""
