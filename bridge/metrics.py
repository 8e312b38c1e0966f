"""The counters, by topic. In quiet moments: pulled = sent + given back, and sent = acknowledged."""

from __future__ import annotations

from prometheus_client import Counter, Gauge


def _counter(name: str, help_text: str) -> Counter:
    return Counter(f"lean_ops_bridge_{name}", help_text, ["topic"])


def _gauge(name: str, help_text: str) -> Gauge:
    return Gauge(f"lean_ops_bridge_{name}", help_text, ["topic"])


PULLED = _counter("pulled", "Messages pulled from Pub/Sub, redeliveries included.")
SENT = _counter("sent", "Messages that SQS has confirmed.")
ACKNOWLEDGED = _counter("acknowledged", "Messages acknowledged to Pub/Sub.")
GIVEN_BACK = _counter("given_back", "Messages given back to Pub/Sub, to be delivered again.")
REFUSED = _counter("refused", "Entries that SQS refused or did not answer, each attempt counted.")
BINARY = _counter("binary", "Messages whose data is not UTF-8, sent as a data URL.")
OVERSIZE = _counter("oversize", "Messages too large for SQS, stored under oversize/ and sent as a reference.")
FAILED_ROUNDS = _counter("failed_rounds", "Rounds that gave messages back or met an error.")
OUTSTANDING = _gauge("outstanding_messages", "Messages held now.")
OUTSTANDING_BYTES = _gauge("outstanding_bytes", "Bytes of data held now.")
