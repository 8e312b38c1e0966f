"""What moto would forget when it stops: queues, DynamoDB items, objects and the Glue catalog, kept in a file.

The file is written at an orderly stop, which the death of the supervisor also brings about. Only a kill -9 of
the emulator itself loses what happened since it started; then the state before that is there again.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import moto
from moto.backends import get_backend
from moto.s3.models import s3_backends

_SERVICES: tuple[Any, ...] = ("dynamodb", "glue", "s3", "sqs")


def save(file: Path) -> None:
    """Write everything down; a reader sees the old state or the new one."""
    state = {
        service: {account: dict(regions) for account, regions in get_backend(service).items()}
        for service in _SERVICES
    }
    draft = file.with_suffix(".tmp")
    with draft.open("wb") as stream:
        pickle.dump({"moto": moto.__version__, "state": state}, stream, protocol=pickle.HIGHEST_PROTOCOL)
    draft.replace(file)


def restore(file: Path) -> str:
    """Bring the saved state back; the answer says in words what was done."""
    if not file.is_file():
        return "no saved state"
    try:
        with file.open("rb") as stream:
            saved: dict[str, Any] = pickle.load(stream)  # noqa: S301 (our own file, in our own home folder)
        _adopt(saved)
    except Exception as error:  # noqa: BLE001 (whatever another version left: starting empty beats not starting)
        aside = file.replace(file.with_suffix(".unreadable"))
        return f"the saved state does not fit this version and is now {aside.name}: {error!r}"
    return f"state restored from {file.name}"


def _adopt(saved: dict[str, Any]) -> None:
    if saved["moto"] != moto.__version__:
        raise ValueError(f"saved by moto {saved['moto']}, this is {moto.__version__}")
    for service, accounts in saved["state"].items():
        for account, regions in accounts.items():
            for region, backend in regions.items():
                get_backend(service)[account][region] = backend
    # S3 finds the owner of a bucket by an index of its own.
    for account, partitions in saved["state"]["s3"].items():
        for partition, backend in partitions.items():
            s3_backends.bucket_accounts.update(dict.fromkeys(backend.buckets, (partition, account)))
