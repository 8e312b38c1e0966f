"""Files of a topic are replaced and removed only when they are still the ones that were read."""

from __future__ import annotations

from typing import Any

import pytest

from lean_ops.aws.schema_folder import OvertakenError, SchemaFolder, StoredFile, topic_of
from lean_ops.naming import Names


@pytest.fixture
def folder(s3: Any, names: Names) -> SchemaFolder:
    return SchemaFolder(s3, names, "orders")


def handed_in(folder: SchemaFolder, text: str) -> StoredFile:
    folder.hand_in(text.encode(), {"deployed-by": "ann"})
    found = folder.read("pending")
    assert found is not None
    return found


def active(folder: SchemaFolder) -> StoredFile:
    found = folder.read("active")
    assert found is not None
    return found


def test_a_file_replaces_only_the_one_that_was_read(folder: SchemaFolder) -> None:
    first = handed_in(folder, "first")
    folder.activate(first, None)
    read_before = active(folder)
    second = handed_in(folder, "second")
    folder.activate(second, read_before)
    for outdated in (None, read_before):
        with pytest.raises(OvertakenError):
            folder.activate(second, outdated)
    assert (active(folder).content, active(folder).by) == (b"second", "ann")


def test_a_file_that_is_no_longer_pending_is_not_activated(folder: SchemaFolder) -> None:
    first = handed_in(folder, "first")
    second = handed_in(folder, "second")
    with pytest.raises(OvertakenError):
        folder.activate(first, None)
    folder.remove_pending(second.etag)
    with pytest.raises(OvertakenError):
        folder.activate(second, None)
    assert folder.read("active") is None


def test_a_newer_file_is_never_removed(folder: SchemaFolder) -> None:
    first = handed_in(folder, "first")
    second = handed_in(folder, "second")
    folder.remove_pending(first.etag)
    assert folder.read("pending") == second
    folder.remove_pending(second.etag)
    folder.remove_pending(second.etag)
    assert folder.read("pending") is None


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("schemas/orders/pending/schema.json", "orders"),
        ("schemas/orders/active/schema.json", None),
        ("schemas/orders/pending/schema.json.tmp", None),
        ("other/orders/pending/schema.json", None),
        ("schemas/a/b/pending/schema.json", "a/b"),
    ],
)
def test_a_key_names_the_folder_that_it_is_pending_in(key: str, topic: str | None) -> None:
    assert topic_of(key) == topic
