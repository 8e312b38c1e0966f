"""AWS Glue."""

from __future__ import annotations

from dags.factory.engines.remote import RemoteJob


class GlueJob(RemoteJob):
    """A run of the hop's Glue job."""

    kind = "glue"
