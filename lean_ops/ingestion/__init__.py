"""From a queue to RAW: envelopes, the breaker, dead letters, and the books upstream of RAW."""
