"""The bridge: Pub/Sub → SQS, at least once, nothing lost, nothing dropped in silence.

    python -m bridge --env prod --project my-project [--topics orders payments] [--listen 0.0.0.0:8080]

Each topic with a `source.subscription` has a courier: a thread that goes in rounds.

1. **Pull** at most a window of messages, and lease them. It is a unary pull, not the streaming client: that
   one buffers out of sight, starts several threads for each of hundreds of subscriptions, and after a nack
   goes on with the next message of the key. Here, one round is all that is outstanding (`flow.py` bounds it).
2. **Send** in lanes (`lanes.py`): one for each ordering key, one for each message that has none. A message is
   sent only after SQS has confirmed the one before it in its lane: a call carries up to ten lanes and 1 MiB,
   a key moves at one message a round trip. Refused entries are sent again, alone, with backoff. What SQS
   keeps refusing stops its lane; other lanes go on.
3. **Acknowledge** what SQS has confirmed, **give back** the rest: Pub/Sub delivers it again, in order where
   the subscription has message ordering. A crash anywhere doubles messages and loses none; a message is
   `(message_id, publish_time)`, and both survive a redelivery, so a double is recognised later.

The body is `{"message_id", "publish_time", "idempotency_key"?, "payload"}`: Pub/Sub's own id and publish time
(RFC 3339, microseconds), the attribute `idempotency_key` when the publisher set it (no other attribute is
carried), and the data as a JSON string, which keeps every character of the source's text.

- Data that is **not UTF-8** cannot be text: the payload is its `data:application/octet-stream;base64,…` URL.
  It reaches RAW whole; being no JSON, it ends in `parse_errors`. Counted in `…_binary_total`.
- A body **over 1 MiB** cannot pass SQS: the data goes to the operations bucket under `oversize/`, byte for
  byte, and an envelope that names that object instead of a payload takes the message's place. The processor
  refuses it as `TOO_LARGE`, so it ends in `dlq_errors`. Counted in `…_oversize_total`.

On SIGTERM nothing more is pulled, calls in flight end, what they confirmed is acknowledged and the rest given
back, and the exit code is 0. After 25 s it is 1: leases then run out by themselves. `/healthz` fails when a
courier is dead or stuck, `/readyz` names the topics whose last round had trouble, `/metrics` is Prometheus's.

A subscription should have message ordering on if its publisher sets ordering keys, and no dead-letter policy:
deliveries during a long outage of SQS would count against its messages. Needed are `roles/pubsub.subscriber`,
`sqs:GetQueueUrl` and `sqs:SendMessage` on the queues, `s3:PutObject` on `oversize/*` of the operations bucket.
"""
