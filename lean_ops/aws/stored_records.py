"""Whether a topic has records that a new contract could be tried on, told by metadata alone."""

from __future__ import annotations

from datetime import date

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from lean_ops import naming, tables
from lean_ops.aws import lake, row_filters

_FOR_EVER = date(9999, 12, 30)


def any_since(catalog: Catalog, topic: str, day: date) -> bool:
    """Messages published since a day, or errors of any age."""
    try:
        raw = catalog.load_table(naming.raw_table(topic))
        errors = catalog.load_table(tables.ERRORS.identifier)
    except NoSuchTableError:
        return False
    recent = row_filters.published(day, _FOR_EVER)
    return lake.holds_rows(raw, recent) or lake.holds_rows(errors, row_filters.of_topic(topic))
