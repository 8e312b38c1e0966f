"""EMR Serverless."""

from __future__ import annotations

from dags.factory.engines.remote import RemoteJob


class EmrServerlessJob(RemoteJob):
    """A run of the shared application."""

    kind = "emr_serverless"
