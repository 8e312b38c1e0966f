"""The tables that a topic's runs write to, as their specs and the contract in force want them."""

from __future__ import annotations

from lean_ops import tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import client
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import Lease, Leases
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.config.topics import TopicSpec
from lean_ops.runtime import Runtime


def ensure_topic_tables(runtime: Runtime, topic: TopicSpec, owner: str) -> list[str]:
    """Create what is missing and evolve what differs; a contract without columns asks for no Curated table."""
    contract = SchemaStore(client(runtime, "s3"), runtime.names).active(topic.topic).contract
    wanted = [tables.standardized(topic.topic), tables.PARSE_ERRORS]
    if contract.payload_columns:
        wanted += [tables.curated(topic.topic, contract, topic.curated.partitioning), tables.ERRORS]
    catalog = open_catalog(runtime.environment, runtime.home)
    with Lease(Leases(client(runtime, "dynamodb"), runtime.names), topic.topic, owner) as lease:
        for spec in wanted:
            lease.check()
            ensure_table(catalog, spec)
    return [".".join(spec.identifier) for spec in wanted]
