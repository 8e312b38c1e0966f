"""Environment files: where lean-ops runs, and what would have gone wrong there."""

from __future__ import annotations

from pathlib import Path

import pytest

from lean_ops.config.repository import Repository, environment_findings, load_environment
from lean_ops.errors import ConfigError, NotFoundError
from tests.repositories import ROOT, environment, repository


def finding(root: Path, text: str) -> str:
    """The one finding of an environment file called dev."""
    (only,) = environment_findings(repository(root, {"environments/dev.yaml": text}))
    return str(only)


@pytest.mark.parametrize("name", ["local", "dev", "prod"])
def test_the_shipped_environments_are_sound(name: str) -> None:
    assert load_environment(Repository(ROOT), name).name == name


def test_only_an_environment_with_the_local_engine_is_emulated() -> None:
    assert load_environment(Repository(ROOT), "local").emulated
    assert not load_environment(Repository(ROOT), "prod").emulated


def test_names_come_from_the_environment_and_its_reviewed_exceptions(tmp_path: Path) -> None:
    text = environment("dev", "buckets: {lake: the-lake}\n")
    names = load_environment(repository(tmp_path, {"environments/dev.yaml": text}), "dev").names
    assert names.queue("orders") == "lean-ops-dev-orders"
    assert names.lake_bucket == "the-lake"
    assert names.ops_bucket == "lean-ops-dev-ops-123456789012"
    assert names.alert_topic_arn == "arn:aws:sns:eu-central-1:123456789012:lean-ops-dev-alerts"


def replaced(old: str, new: str) -> str:
    text = environment("dev")
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (replaced('"123456789012"', "123456789012"), "2: account: found 123456789012; expected text."),
        (replaced('"123456789012"', '"12345678901"'), "2: account: found '12345678901'; expected text that"),
        (
            replaced(
                '"123456789012"', '"\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662"'
            ),
            "2: account: found",
        ),
        (replaced("eu-central-1", "frankfurt"), "3: region: found 'frankfurt'; expected text that matches"),
        (
            replaced("lean-ops-dev", "Lean_Ops"),
            "4: name_prefix: found 'Lean_Ops'; expected 2 to 27 lower-case",
        ),
        (replaced("lean-ops-dev", "sthree"), "4: name_prefix: found 'sthree'; expected a name without the"),
        (
            replaced("catalog:\n  kind: glue", "catalog:\n  kind: gleu"),
            "6: catalog.kind: found 'gleu'; expected 'sqlite' or 'glue'. Did you mean 'glue'?",
        ),
        (
            replaced("catalog:\n  kind: glue", "catalog:\n  kind: sqlite"),
            "7: engine: found {'kind': 'glue'}; expected kind: local, because a sqlite catalog is a file of this",
        ),
        (replaced("engine:\n  kind: glue\n", ""), "1: engine: found nothing; expected a value: this key is"),
        (
            environment("dev", "bucket: {lake: x}\n"),
            (
                "9: bucket: found an unknown key; expected name, account, region, name_prefix, buckets, catalog, "
                "engine, sizes, alerts, mwaa, pii_key_id. Did you mean 'buckets'?"
            ),
        ),
        (
            environment("dev", "buckets: {lake: My_Lake}\n"),
            "9: buckets.lake: found 'My_Lake'; expected 3 to 63 lower-case letters, digits and hyphens",
        ),
        (
            environment("dev", "sizes: {small: {glue_worker: g.1x}}\n"),
            (
                "9: sizes.small.glue_worker: found 'g.1x'; expected 'G.1X', 'G.2X', 'G.4X' or 'G.8X'. "
                "Did you mean 'G.1X'?"
            ),
        ),
        (
            environment("dev", "sizes: {small: {wrkers: 3}}\n"),
            (
                "9: sizes.small.wrkers: found an unknown key; expected glue_worker, workers, executor_cores, "
                "executor_memory_gb. Did you mean 'workers'?"
            ),
        ),
        (
            environment("dev", "mwaa:\n  environment_class: mw1.small\n  min_workers: 20\n"),
            "9: mwaa.max_workers: found 10; expected a number of at least min_workers.",
        ),
        (
            environment("dev", "mwaa: {environment_class: mw1.smal}\n"),
            "9: mwaa.environment_class: found 'mw1.smal'; expected 'mw1.small'",
        ),
        (
            environment("dev", "alerts: {targets: [a, a]}\n"),
            "9: alerts.targets: found ['a', 'a']; expected each",
        ),
        (environment("dev", "name: dev\n"), "9: name: found the key a second time; expected each key once."),
        (environment("prod"), "1: name: found 'prod'; expected 'dev', the file's own name."),
        ("", "1: (whole file): found an empty file; expected lines of key: value."),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    assert finding(tmp_path, text).startswith(f"environments/dev.yaml:{expected}")


def test_all_faults_of_all_environments_come_out_at_once(tmp_path: Path) -> None:
    files = {
        "environments/dev.yaml": environment("prod").replace("eu-central-1", "mars"),
        "environments/prod.yml": environment("prod"),
    }
    found = environment_findings(repository(tmp_path, files))
    assert sorted((finding.file, finding.key) for finding in found) == [
        ("environments/dev.yaml", "name"),
        ("environments/dev.yaml", "region"),
        ("environments/prod.yml", ""),
    ]


def test_loading_a_faulty_environment_raises_all_its_findings(tmp_path: Path) -> None:
    text = environment("prod").replace("eu-central-1", "mars")
    with pytest.raises(ConfigError) as refused:
        load_environment(repository(tmp_path, {"environments/dev.yaml": text}), "dev")
    assert [finding.key for finding in refused.value.findings] == ["name", "region"]


def test_an_environment_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(NotFoundError, match=r"there are dev, local, .*did you mean 'prod'") as missing:
        load_environment(Repository(ROOT), "prd")
    assert missing.value.next_step == "add environments/prd.yaml, or name another with --env"


def test_where_there_is_no_environment_at_all_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no environment 'dev': there is none"):
        load_environment(repository(tmp_path), "dev")


@pytest.mark.parametrize("name", ["../topics/orders", "/etc/hostname", "."])
def test_an_environment_name_never_leads_out_of_its_folder(name: str) -> None:
    with pytest.raises(NotFoundError):
        load_environment(Repository(ROOT), name)
