"""Whether a stored value means a text of the payload: asked from the value's side, with nothing that the jobs use.

It exists to be compared with: whoever changes validation or casting must not change this too.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from lean_ops.contracts.spec import ColumnSpec, ContractSpec
from lean_ops.payload import payload_path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS = {"epoch_seconds": 1_000_000, "epoch_millis": 1000}


def differences(
    contract: ContractSpec,
    texts: Mapping[tuple[str, ...], str],
    stored: Mapping[str, str | None],
    pii_key: bytes | None,
) -> Iterator[str]:
    """The columns whose stored value, as text (instants in microseconds), is not what the payload says.

    Without the key, a hash of personal data is only known not to be the clear text.
    """
    for column in contract.payload_columns:
        text = texts.get(payload_path.segments(column.payload_path), column.default)
        value = stored[column.name]
        if (text is None) != (value is None) or (
            text is not None and value is not None and not _means(value, text, column, pii_key)
        ):
            yield column.name


def _means(value: str, text: str, column: ColumnSpec, pii_key: bytes | None) -> bool:
    if column.pii:
        if pii_key is None:
            return value != text and len(value) == hashlib.sha256().digest_size * 2
        return value == hmac.new(pii_key, text.encode(), hashlib.sha256).hexdigest()
    match column.type.partition("(")[0]:
        case "int" | "bigint" | "decimal":
            return Decimal(value) == Decimal(text)
        case "double":
            return float(value) == float(text)
        case "timestamp":
            return int(value) == _micros(text, column)
    return value == text


def _micros(text: str, column: ColumnSpec) -> int:
    if column.timestamp_format in _MICROS:
        return int(text) * _MICROS[column.timestamp_format]
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
