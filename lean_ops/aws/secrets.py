"""Keys from the environment's secret store. They are held in memory only: no table, log or argument ever has one."""

from __future__ import annotations

from typing import Any

from lean_ops.errors import LeanOpsError
from lean_ops.naming import Names

_KEY_BYTES = 32


class Secrets:
    """AWS Secrets Manager."""

    def __init__(self, secretsmanager: Any, names: Names) -> None:
        self._client, self._names = secretsmanager, names

    def pii_key(self, key_id: str | None) -> bytes:
        """The key under which personal values are hashed. A plan names it by id, so that a rerun has the same."""
        if key_id is None:
            raise LeanOpsError(
                "the contract has PII columns, but the plan names no key for them",
                next_step="set pii_key_id in the environment's file",
            )
        secret = self._names.pii_secret(key_id)
        try:
            answer = self._client.get_secret_value(SecretId=secret)
        except self._client.exceptions.ResourceNotFoundException:
            raise LeanOpsError(
                f"there is no secret {secret!r} for the PII columns",
                next_step="create it with 32 random bytes as its binary value, and never change it",
            ) from None
        key: bytes = answer.get("SecretBinary", b"")
        if len(key) < _KEY_BYTES:
            raise LeanOpsError(
                f"secret {secret!r} has {len(key)} bytes as its binary value, fewer than {_KEY_BYTES}",
                next_step="create another one under another id, and name that in the environment's file",
            )
        return key
