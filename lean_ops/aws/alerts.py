"""Tells people through the environment's alert topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lean_ops.aws.patience import dependency

_SUBJECT_LENGTH = 100  # SNS refuses a longer one


@dataclass(frozen=True)
class AlertTopic:
    """The SNS topic that people subscribe to."""

    client: Any
    arn: str

    def publish(self, subject: str, text: str) -> None:
        with dependency():
            self.client.publish(TopicArn=self.arn, Subject=subject[:_SUBJECT_LENGTH], Message=text)
