"""The JSON Schemas that editors read: valid, in step with the models, and of one mind with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from lean_ops.config import editor_schemas
from lean_ops.config.onboarding import new_topic
from lean_ops.config.repository import environment_findings, load_topics
from lean_ops.contracts.contract_file import read
from tests.repositories import ROOT, column, contract, environment, repository, topic

SCHEMAS = {file: json.loads(text) for file, text in editor_schemas.render().items()}
TOPIC, DEFAULTS = SCHEMAS["topics/_topic.schema.json"], SCHEMAS["topics/_defaults.schema.json"]
CONTRACT, ENVIRONMENT = (
    SCHEMAS["schemas/_contract.schema.json"],
    SCHEMAS["environments/_environment.schema.json"],
)


def faults(schema: dict[str, Any], document: object) -> list[str]:
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("file", SCHEMAS)
def test_a_schema_is_a_valid_schema(file: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[file])


def test_the_shipped_schemas_say_what_the_models_say() -> None:
    assert editor_schemas.outdated(ROOT) == [], "run: lean-ops schema editor-files"


def reviewed_files() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((ROOT / "topics").glob("*.yaml")):
        yield f"topics/{path.name}", DEFAULTS if path.name == "_defaults.yaml" else TOPIC
    for path in sorted((ROOT / "environments").glob("*.yaml")):
        yield f"environments/{path.name}", ENVIRONMENT
    for path in sorted((ROOT / "schemas").glob("*/schema.json")):
        yield f"schemas/{path.parent.name}/schema.json", CONTRACT


REVIEWED = dict(reviewed_files())


@pytest.mark.parametrize("file", REVIEWED)
def test_every_shipped_file_validates(file: str) -> None:
    assert faults(REVIEWED[file], yaml.safe_load((ROOT / file).read_bytes())) == []


@pytest.mark.parametrize("file", REVIEWED)
def test_every_shipped_file_leads_editors_to_its_schema(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    first_line = text.partition("\n")[0]
    named = json.loads(text)["$schema"] if file.endswith(".json") else first_line.partition("$schema=")[2]
    assert json.loads(((ROOT / file).parent / named).read_text(encoding="utf-8")) == REVIEWED[file]


def test_a_new_topic_validates_as_it_is_written(tmp_path: Path) -> None:
    topic_file, contract_file = new_topic(
        repository(tmp_path), "shipments", owner="logistics", description='Parcels, "here" and there.'
    )
    assert faults(TOPIC, yaml.safe_load(topic_file.read_bytes())) == []
    assert faults(CONTRACT, json.loads(contract_file.read_bytes())) == []


@pytest.mark.parametrize(
    "more",
    [
        "ownr: x\n", "schedule: {every_minutes: 7}\n", "schedule: {enabled: 'yes'}\n", "schedule: hourly\n",
        "engine: {kind: gleu}\n", "quality: {error_rate: 1.5}\n", "quality: {error_rate: '0.1'}\n",
        "quality: {min_records: 0}\n", "tags: [a, a]\n", "tags: a\n", "lane: Big\n", "totals: [5]\n",
        "source: {subscription: ' '}\n", "drift: {new_colum: add}\n", "maintenance: {target_file_mb: 5000}\n",
    ],
)  # fmt: skip
def test_what_the_schema_of_topics_refuses_the_model_refuses_too(tmp_path: Path, more: str) -> None:
    text = topic("orders", more)
    assert faults(TOPIC, yaml.safe_load(text))
    assert load_topics(repository(tmp_path, {"topics/orders.yaml": text})).findings


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ([column("a", "strng")], {}),
        ([column("userId")], {}),
        ([column("a", cde="yes")], {}),
        ([column("a", pth="b")], {}),
        ([column("a", default=[])], {}),
        ([column("a", "timestamp", format="epoch")], {}),
        ([{"name": "a"}], {}),
        ([], {"version": 1.0}),
        ([], {"version": "v1"}),
        ([], {"table_name": "Orders"}),
        ([], {"envelope_columns": ["mesage_id"]}),
        ([], {"payload_colums": []}),
    ],
)
def test_what_the_schema_of_contracts_refuses_the_model_refuses_too(
    columns: list[dict[str, Any]], fields: dict[str, Any]
) -> None:
    text = contract(*columns, **fields)
    assert faults(CONTRACT, json.loads(text))
    assert read("c.json", text.encode()).findings


@pytest.mark.parametrize(
    "more", ["bucket: {}\n", "mwaa: {}\n", "alerts: {targets: [a, a]}\n", "sizes: {small: {workers: 1}}\n"]
)
def test_what_the_schema_of_environments_refuses_the_model_refuses_too(tmp_path: Path, more: str) -> None:
    text = environment("dev", more)
    assert faults(ENVIRONMENT, yaml.safe_load(text))
    assert environment_findings(repository(tmp_path, {"environments/dev.yaml": text}))


def test_defaults_may_hold_anything_but_what_makes_a_topic() -> None:
    assert faults(DEFAULTS, {}) == []
    assert faults(DEFAULTS, {"schedule": {"every_minutes": 30}}) == []
    assert faults(DEFAULTS, {"owner": "me"})
    assert faults(TOPIC, {"schedule": {"every_minutes": 30}})


def test_outdated_and_missing_schemas_are_named_and_mended(tmp_path: Path) -> None:
    here = repository(tmp_path, {"topics/_topic.schema.json": "{}", "schemas/orders/schema.json": "{}"})
    assert editor_schemas.outdated(here.root) == list(SCHEMAS)
    assert editor_schemas.write(here.root) == list(SCHEMAS)
    assert editor_schemas.outdated(here.root) == []
    assert editor_schemas.write(here.root) == []
