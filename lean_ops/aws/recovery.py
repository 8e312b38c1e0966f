"""Settles, replays and closes what ended in the error tables.

A record is resolved when its message is in RAW, or when a person gives it up. A replay claims its records first, by
appending a row to each, and sends only those whose claim was its own: two replays at once send a message once,
and one that dies in between leaves records that are open again after an hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog

from lean_ops.aws import error_tables, raw_tables
from lean_ops.aws.books import BreakerTable
from lean_ops.aws.error_tables import ErrorTable
from lean_ops.identity import Identity
from lean_ops.ingestion import chunks, raw_record
from lean_ops.ingestion.attempts import NO_TOPIC, ReplayPlan, Standing, plan_replay
from lean_ops.ingestion.intake import Delivery, Message, prepare
from lean_ops.ingestion.ports import Queue, Stream
from lean_ops.ingestion.pre_raw import Holdings, PreRawBalance, balance

_AT_ONCE = 1_000


@dataclass(frozen=True)
class ReplayResult:
    """What a replay did, in messages; `counts` are the records it was asked for, by code."""

    counts: dict[str, int]
    resolved: int
    in_flight: int
    sent: int = 0
    unsent: int = 0
    still_broken: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CloseResult:
    """What a closing did, in messages; `counts` are the records it was asked for, by code."""

    counts: dict[str, int]
    resolved: int
    in_flight: int
    closed: int = 0


@dataclass(frozen=True)
class Hatch:
    """How the records of one error table leave it: what a kept text is sent as, and where to."""

    errors: ErrorTable
    ready: Callable[[Standing, str], str | None]
    send: Callable[[Sequence[str]], Mapping[int, str]]


def dlq_hatch(errors: ErrorTable, queue: Queue, topic: str, now: float) -> Hatch:
    """Back to the topic's queue, under the identity the row has; a body still without envelope stays."""

    def ready(standing: Standing, body: str) -> str | None:
        identity = standing.identity
        prepared = prepare(topic, Delivery(identity.message_id, body, identity.publish_time, 1), now)
        return prepared.envelope.resolved_body() if isinstance(prepared, Message) else None

    return Hatch(errors, ready, lambda bodies: queue.send(topic, bodies))


def firehose_hatch(errors: ErrorTable, stream: Stream) -> Hatch:
    """Straight to Firehose: the processor would take the message for a duplicate of itself."""

    def ready(_: Standing, record: str) -> str | None:
        return record if raw_record.decode(record) is not None else None

    return Hatch(errors, ready, lambda records: stream.put([each.encode() for each in records]))


def settle(errors: ErrorTable, topic: str, now: int) -> int:
    """Resolve the records whose messages are in RAW. Returns how many this call resolved."""
    if topic == NO_TOPIC:
        return 0  # and so it has no RAW
    pending = [each for each in errors.standings(topic) if each.status != "resolved"]
    there = raw_tables.arrived(errors.catalog, topic, (each.identity for each in pending))
    answers = [
        each.answered("resolved", now, "the message is in RAW") for each in pending if each.identity in there
    ]
    return len(errors.append(answers))


def pre_raw_balance(
    catalog: Catalog, books: BreakerTable, topic: str, *, received: int | None = None
) -> PreRawBalance:
    """A topic's books upstream of RAW; reads all its identities. A message open in both tables counts once."""
    rows, messages = raw_tables.messages(catalog, topic)
    in_firehose = error_tables.firehose_errors(catalog).standings(topic)
    in_dlq = error_tables.dlq_errors(catalog).standings(topic)
    raw = raw_tables.arrived(catalog, topic, (each.identity for each in (*in_firehose, *in_dlq)))
    beyond_sqs = raw | _unresolved(in_firehose) | _closed(in_firehose)
    holdings = Holdings(
        raw_rows=rows,
        raw=messages,
        open_dlq=len(_unresolved(in_dlq) - beyond_sqs),
        open_firehose=len(_unresolved(in_firehose) - raw),
        closed_dlq=len(_closed(in_dlq) - beyond_sqs),
        closed_firehose=len(_closed(in_firehose) - raw),
        dlq_delivered=len({each.identity for each in in_dlq} & beyond_sqs),
    )
    return balance(books.totals(topic), holdings, received)


def _unresolved(standings: Iterable[Standing]) -> set[Identity]:
    return {each.identity for each in standings if each.status != "resolved"}


def _closed(standings: Iterable[Standing]) -> set[Identity]:
    return {each.identity for each in standings if each.closed}


def close(
    errors: ErrorTable,
    topic: str,
    now: float,
    reason: str,
    *,
    since: int | None = None,
    code: str | None = None,
    message_ids: Collection[str] = (),
    on_plan: Callable[[ReplayPlan], None] = lambda _: None,
    dry_run: bool = False,
) -> CloseResult:
    """Settle, count (`on_plan` hears of it first), and give up what is left. What is on its way is left alone."""
    micros = int(now * 1e6)
    resolved = 0 if dry_run else settle(errors, topic, micros)
    asked = [
        each for each in errors.standings(topic) if not message_ids or each.identity.message_id in message_ids
    ]
    plan = plan_replay(asked, micros, since=since, code=code)
    on_plan(plan)
    closings = [] if dry_run else [each.closing(micros, reason) for each in plan.send]
    return CloseResult(plan.counts, resolved, plan.in_flight, len(errors.append(closings)))


def replay(
    hatch: Hatch,
    topic: str,
    now: float,
    *,
    since: int | None = None,
    code: str | None = None,
    on_plan: Callable[[ReplayPlan], None] = lambda _: None,
    dry_run: bool = False,
) -> ReplayResult:
    """Settle, count (`on_plan` hears of it before anything is sent), claim and send."""
    micros = int(now * 1e6)
    resolved = 0 if dry_run else settle(hatch.errors, topic, micros)
    plan = plan_replay(hatch.errors.standings(topic), micros, since=since, code=code)
    on_plan(plan)
    sent = unsent = 0
    broken: Counter[str] = Counter()
    for run in chunks.by_count(plan.send, _AT_ONCE):
        texts, unready = _ready(hatch, run)
        broken.update(each.error_code for each in unready)
        if dry_run:
            continue
        claims = [each.answered("replayed", micros, "sent again") for each in run if each.record_id in texts]
        claimed = [texts[claim.record_id] for claim in hatch.errors.append(claims)]
        refused = len(hatch.send(claimed)) if claimed else 0
        sent, unsent = sent + len(claimed) - refused, unsent + refused
    return ReplayResult(plan.counts, resolved, plan.in_flight, sent, unsent, dict(broken))


def _ready(hatch: Hatch, run: Sequence[Standing]) -> tuple[dict[str, str], list[Standing]]:
    contents = hatch.errors.contents(run)
    texts = {
        each.record_id: text
        for each in run
        if (text := hatch.ready(each, contents.get(each.record_id, ""))) is not None
    }
    return texts, [each for each in run if each.record_id not in texts]
