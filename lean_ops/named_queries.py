"""The questions that are asked every day, under names. DuckDB and Athena read the same text."""

from __future__ import annotations

from typing import Literal, get_args

from lean_ops import named_sql, naming, ops_tables, tables

QueryName = Literal["accountability", "cross_period", "drift"]
NAMES: tuple[QueryName, ...] = get_args(QueryName)
_DAYS = 7
_ROWS = 100


def statement(name: QueryName, topic: str) -> str:
    """The named question about a topic, which must be a legal topic name."""
    fault = naming.topic_name_fault(topic)
    if fault:
        raise ValueError(f"{topic!r}: {fault}")
    return named_sql.render(
        f"named_{name}",
        raw=named_sql.quoted(naming.raw_table(topic)),
        standardized=named_sql.quoted(naming.standardized_table(topic)),
        curated=named_sql.quoted(naming.curated_table(topic)),
        parse_errors=named_sql.quoted(tables.PARSE_ERRORS.identifier),
        errors=named_sql.quoted(tables.ERRORS.identifier),
        drift_log=named_sql.quoted(ops_tables.DRIFT_LOG.identifier),
        topic=topic,
        last_day=None,
        days=_DAYS,
        limit=_ROWS,
    )
