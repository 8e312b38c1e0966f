"""Onboards a topic: its landing table, then its declaration. A contract may come any time later."""

from __future__ import annotations

from datetime import datetime

from pyiceberg.catalog import Catalog

from lean_ops import tables
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.registry import Registry
from lean_ops.config.topics import TopicSpec


def onboard(catalog: Catalog, registry: Registry, spec: TopicSpec, now: datetime) -> None:
    """Doing it again changes what differs from the topic's file, and nothing else."""
    ensure_table(catalog, tables.raw(spec.topic))
    registry.declare(spec, now)
