"""A Pub/Sub server (Go, built once into the cache), the AWS emulator, and one topic for each test."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import grpc
import pytest

from lean_ops.config.repository import load_environment
from tests import repositories
from tests.bridge.harness import PubSub, World, eventually, start
from tests.repositories import ROOT

SERVER = Path(__file__).parent / "pubsub_server"


def build_server() -> Path:
    """The server's binary, named after its source: a change builds it again, nothing else does."""
    source = b"".join((SERVER / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    cache = Path(os.environ.get("LEAN_OPS_CACHE", ROOT / ".cache"))
    binary = cache / f"pubsub-server-{hashlib.sha256(source).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "pubsub-server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one build, however many workers
        if not binary.exists():
            draft = binary.with_suffix(".draft")
            subprocess.run(["go", "build", "-o", draft, "."], cwd=SERVER, check=True)
            draft.rename(binary)
    return binary


@pytest.fixture(scope="session")
def pubsub() -> Iterator[PubSub]:
    # The server ends with its standard input, so it cannot outlive this process.
    with subprocess.Popen(
        [build_server()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with grpc.insecure_channel(address) as channel:
            yield PubSub(address, channel)


@pytest.fixture(scope="session")
def aws_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    emulator = start(
        "local.aws_emulator", str(port), variables={"LEAN_OPS_HOME": str(tmp_path_factory.mktemp("aws"))}
    )

    def answers() -> bool:
        assert emulator.poll() is None
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(answers, "the AWS emulator listens")
        yield f"http://127.0.0.1:{port}"
    finally:
        emulator.kill()
        emulator.wait()


@pytest.fixture
def world(pubsub: PubSub, aws_endpoint: str, tmp_path: Path) -> World:
    topic = f"t{uuid.uuid4().hex[:8]}"
    files = {
        f"topics/{topic}.yaml": repositories.topic(topic, f"source:\n  subscription: {topic}-lean-ops\n"),
        "environments/local.yaml": (ROOT / "environments/local.yaml").read_bytes(),
    }
    names = load_environment(repositories.repository(tmp_path, files), "local").names
    session = boto3.session.Session("local", "local", region_name=names.region)
    sqs, s3 = (session.client(name, endpoint_url=aws_endpoint) for name in ("sqs", "s3"))
    s3.create_bucket(Bucket=names.ops_bucket)
    pubsub.create(topic)
    return World(
        topic=topic,
        root=tmp_path,
        pubsub=pubsub,
        sqs=sqs,
        s3=s3,
        queue_url=sqs.create_queue(QueueName=names.queue(topic))["QueueUrl"],
        variables={"AWS_ENDPOINT_URL": aws_endpoint, "PUBSUB_EMULATOR_HOST": pubsub.address},
    )
