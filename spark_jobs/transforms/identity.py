"""What a message is."""

IDENTITY = ["message_id", "publish_time"]
