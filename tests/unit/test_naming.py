"""Names: legal wherever they are used, and never the same for two things. The limits are AWS's own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops import naming
from lean_ops.naming import Names
from lean_ops.resources import FUNCTIONS, STATE_TABLES

LEGAL_TOPICS = st.text(alphabet="abz09_", min_size=1, max_size=naming.TOPIC_LENGTH).filter(
    lambda name: naming.topic_name_fault(name) is None
)
# Names that differ by what lean-ops itself adds are the likeliest to collide.
STEMS = st.sampled_from(["a", "a_", "errors", "parse", "dlq", "raw", "alerts", "all_errors", "a_b"])
AFFIXES = st.sampled_from(
    ["", "_", "_dlq", "dlq", "_errors", "_staging1", "_latest_", "staging", "_latest", "_staging"]
)
TOPICS = LEGAL_TOPICS | st.builds("{}{}".format, STEMS, AFFIXES).filter(
    lambda name: naming.topic_name_fault(name) is None
)
PREFIXES = (
    st.lists(st.text(alphabet="abyz09", min_size=1, max_size=9), min_size=1, max_size=4)
    .map("-".join)
    .filter(lambda prefix: naming.prefix_fault(prefix) is None)
)
LONGEST_PREFIX = "p" * naming.PREFIX_LENGTH
LONGEST_TOPIC = "t" * naming.TOPIC_LENGTH


def names(prefix: str) -> Names:
    return Names(prefix=prefix, account="123456789012", region="eu-central-1")


def queues(prefix: str, topic: str) -> set[str]:
    return {names(prefix).queue(topic), names(prefix).dead_letter_queue(topic)}


def tables(topic: str) -> set[tuple[str, str]]:
    return {
        naming.raw_table(topic),
        naming.standardized_table(topic),
        naming.latest_view(topic),
        naming.curated_table(topic),
    }


SHARED = {(database, table) for database in naming.DATABASES for table in naming.SHARED_TABLES}


@given(TOPICS, TOPICS, PREFIXES)
def test_two_topics_share_no_queue_no_table_and_no_dag(one: str, other: str, prefix: str) -> None:
    if one == other:
        return
    assert not queues(prefix, one) & queues(prefix, other)
    assert not tables(one) & tables(other)
    assert naming.dag_id(one) != naming.dag_id(other)


@given(TOPICS)
def test_no_topic_takes_the_place_of_a_shared_table(topic: str) -> None:
    assert not tables(topic) & SHARED


@given(TOPICS, TOPICS, PREFIXES, PREFIXES)
def test_two_environments_of_one_account_share_no_queue(
    one: str, other: str, first: str, second: str
) -> None:
    if first == second:
        return
    assert not queues(first, one) & queues(second, other)


@given(PREFIXES)
def test_no_two_resources_of_a_service_share_a_name(prefix: str) -> None:
    resources = names(prefix)
    functions = [resources.function(name) for name in FUNCTIONS]
    state_tables = [resources.state_table(table.name) for table in STATE_TABLES]
    buckets = [resources.lake_bucket, resources.ops_bucket, resources.artifact_bucket]
    for kind in (functions, state_tables, buckets):
        assert len(set(kind)) == len(kind)


@given(TOPICS, PREFIXES)
def test_a_queue_leads_back_to_its_topic(topic: str, prefix: str) -> None:
    assert {names(prefix).topic_of_queue(queue) for queue in queues(prefix, topic)} == {topic}


@given(TOPICS | st.just(LONGEST_TOPIC), PREFIXES | st.just(LONGEST_PREFIX))
def test_queue_names_are_legal_for_sqs(topic: str, prefix: str) -> None:
    for queue in queues(prefix, topic):
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,80}", queue)


@given(TOPICS | st.just(LONGEST_TOPIC))
def test_table_names_are_legal_for_glue_iceberg_and_firehose(topic: str) -> None:
    # Glue folds case and stops at 255 bytes; Firehose takes no hyphen.
    for database, table in tables(topic) | SHARED:
        assert re.fullmatch(r"[a-z_][a-z0-9_]{0,254}", database)
        assert re.fullmatch(r"[a-z_][a-z0-9_]{0,254}", table)
        assert naming.is_identifier(table)


@given(TOPICS | st.just(LONGEST_TOPIC))
def test_dag_ids_are_legal_for_airflow(topic: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,250}", naming.dag_id(topic))


@given(PREFIXES | st.just(LONGEST_PREFIX))
def test_the_names_of_an_environment_are_legal_for_their_services(prefix: str) -> None:
    resources = names(prefix)
    for bucket in (resources.lake_bucket, resources.ops_bucket, resources.artifact_bucket):
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", bucket)
        assert not bucket.startswith(("xn--", "sthree-", "amzn-s3-demo-"))
        assert not bucket.endswith(("-s3alias", "--ol-s3", "--x-s3", "--table-s3"))
    for name in FUNCTIONS:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", resources.function(name))
    for table in STATE_TABLES:
        assert re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", resources.state_table(table.name))
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", resources.delivery_stream)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,256}", resources.alert_topic)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", resources.schema_rule)


def test_the_longest_names_fill_the_narrowest_limit_exactly() -> None:
    assert naming.topic_name_fault(LONGEST_TOPIC) is None
    assert naming.prefix_fault(LONGEST_PREFIX) is None
    assert len(names(LONGEST_PREFIX).dead_letter_queue(LONGEST_TOPIC)) == 80


@pytest.mark.parametrize(
    "name",
    ["", "Orders", "order-items", "order items", "order.items", "1orders", "_orders", "örders", "orders\n",
     "t" * (naming.TOPIC_LENGTH + 1), "'; drop table", "../orders", "orders/", "ord`er", "a\u0661"],
)  # fmt: skip
def test_a_name_that_is_illegal_anywhere_is_refused(name: str) -> None:
    fault = naming.topic_name_fault(name)
    assert fault is not None
    assert fault.startswith("1 to 48 lower-case letters")


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("errors", "shared tables"),
        ("parse_errors", "shared tables"),
        ("all_errors", "shared tables"),
        ("orders_latest", "does not end in _latest"),
        ("orders_staging", "does not end in _latest or _staging"),
    ],
)
def test_a_name_that_lean_ops_makes_itself_is_refused(name: str, because: str) -> None:
    assert because in (naming.topic_name_fault(name) or "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Orders", "orders"),
        ("order-items", "order_items"),
        ("orderItems", "order_items"),
        ("  Order  Items  ", "order_items"),
        ("2nd_orders", "nd_orders"),
        ("_orders_", "orders"),
        ("t" * 60, "t" * 48),
        ("errors", ""),
        ("Orders-Staging", ""),
        ("123", ""),
        ("", ""),
    ],
)
def test_an_illegal_name_has_at_most_one_nearest_legal_spelling(name: str, meant: str) -> None:
    assert naming.nearest_topic_name(name) == meant


@given(st.text())
def test_whatever_spelling_is_offered_is_legal(name: str) -> None:
    offered = naming.nearest_topic_name(name)
    assert not offered or naming.topic_name_fault(offered) is None


@pytest.mark.parametrize(
    "prefix",
    ["", "a", "-a", "a-", "a--b", "1a", "Lean", "lean_ops", "lean.ops", "p" * 28, "lean\n", "sthree",
     "sthree-x", "amzn-s3-demo"],
)  # fmt: skip
def test_a_prefix_that_would_make_an_illegal_name_is_refused(prefix: str) -> None:
    assert naming.prefix_fault(prefix)


@pytest.mark.parametrize(
    "bucket",
    ["ab", "b" * 64, "Bucket", "bucket_1", "bucket.1", "-bucket", "bucket-", "xn--bucket", "sthree-bucket",
     "amzn-s3-demo-bucket", "bucket-s3alias", "bucket--ol-s3", "bucket--x-s3", "bucket--table-s3"],
)  # fmt: skip
def test_a_bucket_name_that_s3_refuses_is_refused(bucket: str) -> None:
    assert naming.bucket_fault(bucket)


@pytest.mark.parametrize("bucket", ["abc", "b" * 63, "1-bucket", "my-lake-2026"])
def test_a_bucket_name_that_s3_takes_is_taken(bucket: str) -> None:
    assert naming.bucket_fault(bucket) is None


def test_reviewed_bucket_names_replace_the_derived_ones() -> None:
    named = Names(prefix="p1", account="123456789012", region="eu-central-1", lake="the-lake")
    assert named.lake_bucket == "the-lake"
    assert named.ops_bucket == "p1-ops-123456789012"


@pytest.mark.parametrize("name", ["a`b", 'a"b', "a b", "a;b", "A", "1a", "", "a\n", "a" * 256, "ä"])
def test_what_may_not_stand_in_sql_is_no_identifier(name: str) -> None:
    assert not naming.is_identifier(name)


def test_the_stable_hash_is_the_same_in_every_process() -> None:
    assert naming.stable_hash("orders") == 0x1C168ADB00D208E4  # the first 16 digits of its SHA-256


def test_the_four_tables_of_a_topic_are_four() -> None:
    assert len(tables("orders")) == 4
