"""Settles and replays what ended in the error tables.

A record is resolved when its message is in RAW, and by nothing else. A replay claims its records first, by
appending a row to each, and sends only those whose claim was its own: two replays at once send a message once,
and one that dies in between leaves records that are open again after an hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog

from lean_ops.aws import error_tables, raw_tables
from lean_ops.aws.books import BreakerTable
from lean_ops.aws.error_tables import ErrorTable
from lean_ops.identity import Identity
from lean_ops.ingestion import chunks, raw_record
from lean_ops.ingestion.attempts import ReplayPlan, Standing, plan_replay
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
    pending = [each for each in errors.standings(topic) if each.status != "resolved"]
    there = raw_tables.arrived(errors.catalog, topic, (each.identity for each in pending))
    answers = [
        each.answered("resolved", now, "the message is in RAW") for each in pending if each.identity in there
    ]
    return len(errors.append(answers))


def pre_raw_balance(
    catalog: Catalog, books: BreakerTable, topic: str, *, received: int | None = None
) -> PreRawBalance:
    """A topic's books upstream of RAW, as large as the topic. A message open in both tables counts once."""
    rows, raw = raw_tables.messages(catalog, topic)
    in_firehose = _unresolved(error_tables.firehose_errors(catalog), topic) - raw
    in_dlq = _unresolved(error_tables.dlq_errors(catalog), topic)
    ever_in_dlq = {each.identity for each in error_tables.dlq_errors(catalog).standings(topic)}
    holdings = Holdings(
        raw_rows=rows,
        raw=len(raw),
        open_dlq=len(in_dlq - raw - in_firehose),
        open_firehose=len(in_firehose),
        dlq_in_raw=len(ever_in_dlq & raw),
    )
    return balance(books.totals(topic), holdings, received)


def _unresolved(errors: ErrorTable, topic: str) -> set[Identity]:
    return {each.identity for each in errors.standings(topic) if each.status != "resolved"}


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
