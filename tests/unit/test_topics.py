"""Topic files: sound ones mean what they say over the defaults, faulty ones are named down to the line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from lean_ops.config.repository import Repository, find_root, load_topic, load_topics
from lean_ops.config.strict_yaml import MAX_BYTES
from lean_ops.config.topics import EngineSpec, TopicSpec
from lean_ops.errors import ConfigError, NotFoundError
from tests.repositories import ROOT, repository, topic


def findings(root: Path, files: dict[str, str | bytes]) -> list[str]:
    return [str(finding) for finding in load_topics(repository(root, files)).findings]


def finding(root: Path, more: str) -> str:
    """The one finding of a topic file whose fourth line is the first of these."""
    (only,) = findings(root, {"topics/orders.yaml": topic("orders", more)})
    return only


# ---------------------------------------------------------------- sound files


def test_the_shipped_topics_are_sound() -> None:
    topics = load_topics(Repository(ROOT)).checked()
    assert list(topics) == ["events", "orders", "payments"]
    assert topics["events"].keys.idempotency_key == "_metadata.idempotencyKeyResource"


def test_three_keys_make_a_topic_and_all_else_has_its_documented_default(tmp_path: Path) -> None:
    spec = load_topic(repository(tmp_path, {"topics/orders.yaml": topic("orders")}), "orders")
    assert spec.schedule.every_minutes == 15
    assert spec.quality.error_rate == 0.05
    assert spec.quality.cde_violation_rate == 0.10
    assert spec.quality.reconciliation_layer_rate == 0.01
    assert spec.quality.reconciliation_source_rate == 0.005
    assert spec.retention.snapshot_days == 90
    assert spec.maintenance.target_file_mb == 256
    assert spec.drift.new_column == "add"
    assert spec.standardized_lifo == "none"
    assert spec.curated.partitioning == "period"
    assert spec.engine == EngineSpec(kind=None, size=None)
    assert spec.lane is None


def test_a_topic_overrides_the_shared_defaults_key_by_key(tmp_path: Path) -> None:
    files = {
        "topics/_defaults.yaml": "quality:\n  error_rate: 0.2\n  min_records: 7\ntags: [shared]\n",
        "topics/orders.yaml": topic("orders", "quality: {error_rate: 0.3}\ntags: [own]\n"),
        "topics/events.yaml": topic("events"),
    }
    topics = load_topics(repository(tmp_path, files)).checked()
    assert (topics["orders"].quality.error_rate, topics["orders"].quality.min_records) == (0.3, 7)
    assert (topics["events"].quality.error_rate, topics["events"].quality.min_records) == (0.2, 7)
    assert (topics["orders"].tags, topics["events"].tags) == (("own",), ("shared",))


def test_a_spec_cannot_be_changed() -> None:
    spec = TopicSpec(topic="orders", owner="o", description="d")
    with pytest.raises(ValidationError, match="frozen"):
        spec.owner = "other"  # type: ignore[misc]


def test_one_topic_is_loaded_without_its_faulty_neighbours(tmp_path: Path) -> None:
    files = {"topics/orders.yaml": topic("orders"), "topics/broken.yaml": "topic: ["}
    assert load_topic(repository(tmp_path, files), "orders").topic == "orders"


def test_a_faulty_file_never_hides_a_sound_one(tmp_path: Path) -> None:
    files = {"topics/orders.yaml": topic("orders"), "topics/broken.yaml": "topic: ["}
    loaded = load_topics(repository(tmp_path, files))
    assert list(loaded.topics) == ["orders"]
    with pytest.raises(ConfigError, match=r"1 finding:\ntopics/broken.yaml:2: "):
        loaded.checked()


# ---------------------------------------------------------------- single faults


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "qualty: {}\n",
            (
                "qualty: found an unknown key; expected topic, owner, description, tags, schedule, engine, source, "
                "keys, drift, standardized_lifo, curated, quality, totals, retention, maintenance, alerts, lane. "
                "Did you mean 'quality'?"
            ),
        ),
        (
            "drift: {new_colum: add}\n",
            (
                "drift.new_colum: found an unknown key; expected new_column, max_columns, removed_after. "
                "Did you mean 'new_column'?"
            ),
        ),
        ("owner: me\n", "owner: found the key a second time; expected each key once."),
        (
            "engine: {kind: gleu}\n",
            "engine.kind: found 'gleu'; expected 'local', 'glue' or 'emr_serverless'. Did you mean 'glue'?",
        ),
        (
            "drift: {new_column: ADD}\n",
            "drift.new_column: found 'ADD'; expected 'add', 'ignore' or 'fail'. Did you mean 'add'?",
        ),
        (
            "schedule: {every_minutes: 7}\n",
            "schedule.every_minutes: found 7; expected 5, 10, 15, 20, 30 or 60.",
        ),
        (
            "schedule: {every_minutes: '15'}\n",
            "schedule.every_minutes: found '15'; expected 5, 10, 15, 20, 30 or 60.",
        ),
        ("schedule: {enabled: yes}\n", "schedule.enabled: found 'yes'; expected true or false."),
        ("schedule: {enabled: 1}\n", "schedule.enabled: found 1; expected true or false."),
        ("schedule: hourly\n", "schedule: found 'hourly'; expected keys and values: every_minutes, enabled."),
        ("schedule:\n", "schedule: found nothing; expected keys and values: every_minutes, enabled."),
        ("schedule: [5]\n", "schedule: found [5]; expected keys and values: every_minutes, enabled."),
        (
            "quality: {error_rate: 1.5}\n",
            "quality.error_rate: found 1.5; expected a number of at most 1.",
        ),
        (
            "quality: {error_rate: -0.1}\n",
            "quality.error_rate: found -0.1; expected a number of at least 0.",
        ),
        ("quality: {error_rate: '0.1'}\n", "quality.error_rate: found '0.1'; expected a number."),
        ("quality: {error_rate: true}\n", "quality.error_rate: found true; expected a number."),
        ("quality: {min_records: 1.0}\n", "quality.min_records: found 1.0; expected a whole number."),
        ("quality: {min_records: 1e3}\n", "quality.min_records: found '1e3'; expected a whole number."),
        ("quality: {min_records: 0}\n", "quality.min_records: found 0; expected a number of at least 1."),
        (
            "quality: {min_records: 0x10}\n",
            "quality.min_records: found '0x10'; expected a plain number, or text in quotes.",
        ),
        ("quality: {min_records: }\n", "quality.min_records: found nothing; expected a whole number."),
        (
            "maintenance: {target_file_mb: 2048}\n",
            "maintenance.target_file_mb: found 2048; expected a number of at most 1024.",
        ),
        ("source: {subscription: 5}\n", "source.subscription: found 5; expected text."),
        ("source: {subscription: ''}\n", "source.subscription: found ''; expected text that is not blank."),
        ("source: {subscription: ' '}\n", "source.subscription: found ' '; expected text that is not blank."),
        ("lane: Big\n", "lane: found 'Big'; expected text that matches ^[a-z][a-z0-9_]{0,30}$."),
        ("tags: finance\n", "tags: found 'finance'; expected a list."),
        ("tags: [a, 5]\n", "tags[1]: found 5; expected text."),
        ("tags: [a, b, a]\n", "tags: found ['a', 'b', 'a']; expected each of them once."),
        (
            "totals: [amount..net]\n",
            (
                r"totals[0]: found 'amount..net'; expected keys joined by dots, none of them empty "
                r"(inside a key, \. is a dot and \\ a backslash)."
            ),
        ),
        (
            f"keys: {{idempotency_key: {'k' * 1001}}}\n",
            f"keys.idempotency_key: found '{'k' * 58}…; expected at most 1000 characters.",
        ),
    ],
)
def test_a_fault_is_named_with_line_key_found_expected_and_nearest(
    tmp_path: Path, more: str, expected: str
) -> None:
    assert finding(tmp_path, more) == f"topics/orders.yaml:4: {expected}"


def test_a_refused_value_is_one_finding_and_not_two(tmp_path: Path) -> None:
    text = "topic: orders\nowner: &o platform\ndescription: *o\nquality: !!set {a}\n"
    assert findings(tmp_path, {"topics/orders.yaml": text}) == [
        (
            "topics/orders.yaml:3: description: found an alias (*name); "
            "expected the value written out: no aliases."
        ),
        "topics/orders.yaml:4: quality: found the tag '!!set'; expected a plain value without a tag.",
    ]


def test_every_required_key_that_is_missing_is_named(tmp_path: Path) -> None:
    assert findings(tmp_path, {"topics/orders.yaml": "tags: []\n"}) == [
        f"topics/orders.yaml:1: {key}: found nothing; expected a value: this key is required."
        for key in ("description", "owner", "topic")
    ]


@pytest.mark.parametrize(
    ("name", "meant"), [("Orders", "orders"), ("order-items", "order_items"), ("orderItems", "order_items")]
)
def test_an_illegal_topic_name_is_refused_with_the_nearest_legal_one(
    tmp_path: Path, name: str, meant: str
) -> None:
    (only,) = findings(tmp_path, {f"topics/{name}.yaml": topic(name)})
    assert only == (
        f"topics/{name}.yaml:1: topic: found {name!r}; expected 1 to 48 lower-case letters, digits and "
        f"underscores, a letter first (legal for Glue, SQS and Iceberg at once). Did you mean {meant!r}?"
    )


def test_a_file_is_named_after_its_topic(tmp_path: Path) -> None:
    (only,) = findings(tmp_path, {"topics/orders.yaml": topic("order")})
    assert only == "topics/orders.yaml:1: topic: found 'order'; expected 'orders', the file's own name."


# ---------------------------------------------------------------- files and folders


@pytest.mark.parametrize("ending", [".yml", ".YAML", ".Yml"])
def test_another_ending_is_refused_aloud(tmp_path: Path, ending: str) -> None:
    (only,) = findings(tmp_path, {f"topics/orders{ending}": topic("orders")})
    assert only == (
        f"topics/orders{ending}: (whole file): found the ending {ending}; expected a file that ends in .yaml."
    )


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    huge = tmp_path / "topics" / "orders.yaml"
    root = repository(tmp_path)
    with huge.open("wb") as stream:
        stream.truncate(1 << 40)  # a hole: a terabyte to read, nothing on the disk
    (only,) = load_topics(root).findings
    assert only.found == f"more than {MAX_BYTES} bytes"


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root.topics_folder / "folder.yaml").mkdir()
    (root.topics_folder / "link.yaml").symlink_to(tmp_path / "nowhere")
    os.mkfifo(root.topics_folder / "pipe.yaml")
    found = load_topics(root).findings
    assert [finding.file for finding in found] == [
        "topics/folder.yaml", "topics/link.yaml", "topics/pipe.yaml",
    ]  # fmt: skip
    assert {finding.found for finding in found} == {"something that is not a file"}


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    root = repository(tmp_path, {"topics/orders.yaml": topic("orders")})
    path = root.topics_folder / "orders.yaml"
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read every file, but nobody this one
        path.unlink()
        path.symlink_to("/proc/self/mem")
    (only,) = load_topics(root).findings
    assert only.found in (
        "a file that cannot be read (Permission denied)",
        "a file that cannot be read (Input/output error)",
    )


def test_topics_in_folders_are_not_silently_absent(tmp_path: Path) -> None:
    files = {"topics/finance/orders.yaml": topic("orders"), "topics/.cache/x": "", "topics/README.md": ""}
    assert findings(tmp_path, files) == [
        "topics/finance: (whole file): found a folder; expected topic files directly in topics/."
    ]


# ---------------------------------------------------------------- shared defaults


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quality: {eror_rate: 0.1}\n", ":1: quality.eror_rate: found an unknown key"),
        (
            "tags: []\nowner: me\n",
            ":2: owner: found a key of one topic; expected only what all topics share.",
        ),
        ("a: 1\n", ":1: a: found an unknown key"),
        ("retention: {snapshot_days: none}\n", ":1: retention.snapshot_days: found 'none'"),
        ("- a\n", ":1: (whole file): found no plain mapping at the top"),
    ],
)
def test_a_fault_in_the_defaults_is_named_once_and_no_topic_answers_for_it(
    tmp_path: Path, text: str, expected: str
) -> None:
    files = {
        "topics/_defaults.yaml": text,
        "topics/orders.yaml": topic("orders"),
        "topics/events.yaml": topic("events"),
    }
    loaded = load_topics(repository(tmp_path, files))
    (only,) = loaded.findings
    assert str(only).startswith(f"topics/_defaults.yaml{expected}")
    assert list(loaded.topics) == ["events", "orders"]


def test_defaults_cannot_make_a_topic_of_an_incomplete_file(tmp_path: Path) -> None:
    files = {"topics/_defaults.yaml": "owner: all of us\n", "topics/orders.yaml": "topic: orders\n"}
    found = load_topics(repository(tmp_path, files)).findings
    assert [(finding.file, finding.key) for finding in found] == [
        ("topics/_defaults.yaml", "owner"),
        ("topics/orders.yaml", "description"),
        ("topics/orders.yaml", "owner"),
    ]


# ---------------------------------------------------------------- finding things


def test_a_topic_that_does_not_exist_is_answered_with_the_nearest_and_the_next_command(
    tmp_path: Path,
) -> None:
    root = repository(tmp_path, {"topics/orders.yaml": topic("orders")})
    with pytest.raises(NotFoundError, match="did you mean 'orders'") as missing:
        load_topic(root, "order")
    assert "lean-ops topics new order" in missing.value.next_step


@pytest.mark.parametrize(
    "name", ["../environments/local", "../topics/orders", "/etc/passwd", ".", "_defaults/x"]
)
def test_a_topic_name_never_leads_out_of_its_folder(name: str) -> None:
    with pytest.raises(NotFoundError):
        load_topic(Repository(ROOT), name)


def test_a_repository_is_found_from_any_folder_inside(tmp_path: Path) -> None:
    root = repository(tmp_path, {"schemas/orders/schema.json": "{}"}).root
    assert find_root(root / "schemas" / "orders") == root


def test_outside_a_repository_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no lean-ops repository at or above") as missing:
        find_root(tmp_path)
    assert "--root" in missing.value.next_step
