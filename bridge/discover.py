"""Lists the topics of a Pub/Sub project, for the history and for whoever onboards the next one.

    python -m bridge.discover --env prod --project my-project

Once a day is enough. Needed are `roles/pubsub.viewer` and `s3:PutObject` on `discovery/*` of the operations bucket.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from google.cloud.pubsub_v1 import PublisherClient  # type: ignore[import-untyped]

from lean_ops import runtime as runtimes
from lean_ops.aws.clients import client
from lean_ops.aws.discovery import Listings
from lean_ops.config.repository import Repository, find_root
from lean_ops.ingestion.discovery import Listing


def main(argv: Sequence[str] | None = None) -> int:
    """Leave one listing in the operations bucket."""
    parser = argparse.ArgumentParser(prog="python -m bridge.discover")
    parser.add_argument("--env", required=True)
    parser.add_argument("--project", required=True)
    parser.add_argument("--root", type=Path, default=Path.cwd())
    arguments = parser.parse_args(argv)
    repository = Repository(find_root(arguments.root))
    runtime = runtimes.from_repository(repository, arguments.env, os.environ)
    listing = list_topics(arguments.project)
    key = Listings(client(runtime, "s3"), runtime.names).put(listing)
    sys.stdout.write(f"{len(listing.topics)} topics of {listing.project} in {key}\n")
    return 0


def list_topics(project: str) -> Listing:
    """Every topic that the project has now."""
    found = PublisherClient().list_topics(project=f"projects/{project}")
    return Listing(
        project=project, listed_at=datetime.now(UTC), topics=tuple(sorted(topic.name for topic in found))
    )


if __name__ == "__main__":
    sys.exit(main())
