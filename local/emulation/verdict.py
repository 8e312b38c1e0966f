"""Every statement of `verify`: the truth of all messages against all that the stack made of them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from uuid import uuid4

from lean_ops.aws import clients
from lean_ops.aws import outbox as outboxes
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.leases import Leases
from lean_ops.aws.registry import Registry
from lean_ops.aws.secrets import Secrets
from lean_ops.batch.steps import Steps
from lean_ops.config.repository import Repository
from lean_ops.errors import RetryableError
from lean_ops.naming import dag_id
from lean_ops.runtime import Runtime
from local.airflow_api import AirflowApi
from local.emulation.comparison import Check, Comparison
from local.emulation.expectation import expect
from local.emulation.found import Found
from local.emulation.ledger import Ledger
from local.emulation.traffic import SHARES

_FLUSH_SECONDS = 300.0
_PAUSE_SECONDS = 1.0


def verify(runtime: Runtime, repository: Repository, ledger: Ledger) -> Iterator[Check]:
    """Topic by topic, so that at most one topic's truth is in memory."""
    entry, deployed = ledger.setting.entry, ledger.deployed
    _flush(runtime)
    key = Secrets(clients.client(runtime, "secretsmanager"), runtime.names).pii_key(
        runtime.environment.pii_key_id
    )
    for topic in SHARES:
        expected = expect(topic, ledger.messages(topic), processed=topic in deployed)
        yield _contract(runtime, repository, topic, deployed=topic in deployed)
        if topic not in deployed:
            yield _skipped(runtime, topic)
        yield from Comparison(expected, Found(runtime, topic), entry, key).checks()


def _flush(runtime: Runtime) -> None:
    """What batches told the drift log may still wait in the outbox. Airflow flushes too: its turn is waited for."""
    dynamodb = clients.client(runtime, "dynamodb")
    deadline = time.monotonic() + _FLUSH_SECONDS
    while True:
        try:
            outboxes.flush(
                open_catalog(runtime.environment, runtime.home),
                outboxes.Outbox(dynamodb, runtime.names),
                Leases(dynamodb, runtime.names),
                f"emulation-{uuid4().hex}",
                Steps(log=lambda _: None),
            )
        except RetryableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _contract(runtime: Runtime, repository: Repository, topic: str, *, deployed: bool) -> Check:
    registered = Registry(clients.client(runtime, "dynamodb"), runtime.names).load(topic)
    found = registered.sha256 if registered and registered.version else None
    content = repository.contract_file(topic).read_bytes()
    wanted = hashlib.sha256(content).hexdigest() if deployed else None
    statement = "the contract of the repository is in force" if deployed else "no contract is in force"
    return Check(topic, statement, found == wanted, "" if found == wanted else f"found: {found}")


def _skipped(runtime: Runtime, topic: str) -> Check:
    """Of every run that is over: skipped at the gate, and for the right reason."""
    airflow = AirflowApi(clients.local_stack(runtime).endpoint("airflow"), runtime.home)
    dag = dag_id(topic)
    runs = airflow.runs(dag)
    others = {run: airflow.tasks(dag, run)["schema_gate"] for run in runs}
    wrong = [run for run, state in others.items() if state != "skipped"]
    wrong += [run for run in runs if run not in wrong and not airflow.gate(dag, run).startswith("no schema")]
    statement = f"all {len(runs)} runs were skipped: no schema"
    return Check(topic, statement, bool(runs) and not wrong, f"found: {', '.join(wrong)}" if wrong else "")
