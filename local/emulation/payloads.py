"""What the sources of the three topics write, and what a Curated row of it must hold.

The expected texts are written down next to the payload, by hand and once: no code of the pipeline derives them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from local.emulation.message import Violation, iso

Payload = dict[str, Any]
Values = dict[str, str | None]

# Hashed before they reach Curated.
PERSONAL: Final = {"orders": ("customer_email",), "events": ("user_id", "ip_address")}
# Points in time, which are compared as microseconds.
INSTANTS: Final = ("ordered_at", "event_timestamp")


@dataclass(frozen=True)
class Written:
    """A payload, still to be encoded, and its expectations; as in `Message`."""

    payload: Payload
    values: Values
    violation: Violation | None = None
    drifted: tuple[tuple[str, str], ...] = ()
    flipped: tuple[str, ...] = ()


def number(text: str) -> msgspec.Raw:
    """A JSON number in these very digits."""
    return msgspec.Raw(text.encode())


def encode(payload: Payload) -> str:
    return msgspec.json.encode(payload).decode()


def order(rng: random.Random, key: str, instant: int, period: str) -> Written:
    amount, quantity = f"{rng.randrange(1, 10**7)}.{rng.randrange(100):02d}", str(rng.randrange(1, 50))
    email, currency = f"customer{rng.randrange(10**6)}@example.com", rng.choice(("EUR", "GBP", "CHF"))
    shipped = (datetime.fromtimestamp(instant // 10**6, UTC) + timedelta(days=rng.randrange(9))).date()
    items = f'[{{"sku":"A-{rng.randrange(900)}","price":{rng.randrange(90)}.{rng.randrange(10)}0}}]'
    payload: Payload = {
        "orderId": key,
        "customer": {"email": email},
        "amount": number(amount),
        "currency": currency,
        "quantity": number(quantity),
        "orderedAt": iso(instant),
        "shipping": {"date": shipped.isoformat()},
        "accounting": {"period": period},
        "items": number(items),
    }
    values: Values = {
        "order_id": key,
        "customer_email": email,
        "amount": amount,
        "currency": currency,
        "quantity": quantity,
        "ordered_at": str(instant),
        "shipped_on": shipped.isoformat(),
        "items": items,
    }
    return Written(payload, values)


def event(rng: random.Random, key: str, instant: int, period: str) -> Written:
    value, duration = f"{rng.randrange(10**4)}.{rng.randrange(100):02d}", str(rng.randrange(90_000))
    user, address = f"user-{rng.randrange(10**5)}", f"10.{rng.randrange(256)}.{rng.randrange(256)}.9"
    kind, is_test = rng.choice(("click", "view", "purchase")), rng.random() < 0.1
    session, device = f"session-{rng.randrange(10**6)}", f"device-{rng.randrange(5000)}"
    payload: Payload = {
        "_metadata": {"idempotencyKeyResource": key, "periodReference": period},
        "sessionId": session,
        "event": {
            "timestamp": iso(instant),
            "userId": user,
            "eventType": kind,
            "verb": "press",
            "durationMs": number(duration),
            "value": number(value),
            "isTest": is_test,
            "metadata": {"ipAddress": address, "deviceId": device, "userAgent": "Mozilla/5.0"},
        },
    }
    values: Values = {
        "event_timestamp": str(instant),
        "user_id": user,
        "event_type": kind,
        "verb": "press",
        "session_id": session,
        "duration_ms": duration,
        "value": value,
        "is_test": str(is_test).lower(),
        "ip_address": address,
        "device_id": device,
        "user_agent": "Mozilla/5.0",
    }
    return Written(payload, values)


def payment(rng: random.Random, key: str, instant: int, period: str) -> Written:
    """Without a contract in force nothing is expected of it beyond RAW."""
    payload: Payload = {
        "paymentId": key,
        "orderId": f"order-{rng.randrange(10**6)}",
        "amount": number(f"{rng.randrange(10**5)}.{rng.randrange(100):02d}"),
        "method": rng.choice(("card", "transfer")),
        "card": {"holder": f"Holder {rng.randrange(10**4)}"},
        "settledAt": number(str(instant // 1000)),
        "accounting": {"period": period},
    }
    return Written(payload, {})


SOURCES: Final[dict[str, Callable[[random.Random, str, int, str], Written]]] = {
    "orders": order,
    "events": event,
    "payments": payment,
}


def with_new_column(topic: str, sound: Written) -> Written:
    """A leaf that nobody announced: a column of Standardized, none of Curated."""
    match topic:
        case "orders":
            return _changed(sound, {"loyalty": {"tier": "gold"}}, drifted=(("loyalty_tier", "gold"),))
        case "events":
            return _changed(
                sound, {"campaign": "spring"}, within="event", drifted=(("event_campaign", "spring"),)
            )
    return _changed(sound, {"gateway": "eu-1"}, drifted=(("gateway", "eu-1"),))


def with_vanished_columns(topic: str, sound: Written) -> Written:
    """Leaves that stay away: NULL, or the contract's default."""
    match topic:
        case "orders":
            gone: Payload = {"currency": None, "shipping": None}
            return _changed(sound, gone, values={"currency": "USD", "shipped_on": None})
        case "events":
            gone = {"isTest": None, "verb": None}
            return _changed(sound, gone, within="event", values={"is_test": "false", "verb": None})
    return _changed(sound, {"card": None})


def with_flipped_type(topic: str, sound: Written) -> Written:
    """Text where a number was: fine where the text is a number, an error where it is none."""
    match topic:
        case "orders":
            return _changed(sound, {"quantity": sound.values["quantity"]}, flipped=("quantity",))
        case "events":
            wrong = Violation("WRONG_TYPE", "value")
            return _changed(
                sound, {"value": "n/a"}, within="event", violation=wrong, flipped=("event_value",)
            )
    return _changed(sound, {"amount": "12.50"}, flipped=("amount",))


def without_cde(topic: str, sound: Written, *, blank: bool) -> Written:
    """A critical data element is absent, or nothing but spaces."""
    lacking = "  " if blank else None
    match topic:
        case "orders":
            missing = Violation("CDE_MISSING", "amount")
            return _changed(sound, {"amount": lacking}, violation=missing, flipped=("amount",) * blank)
        case "events":
            missing = Violation("CDE_MISSING", "user_id")
            return _changed(sound, {"userId": lacking}, within="event", violation=missing)
    return _changed(sound, {"amount": lacking}, flipped=("amount",) * blank)


def with_malformed_timestamp(topic: str, sound: Written, *, words: bool) -> Written:
    """A time that no calendar has."""
    malformed = "yesterday" if words else "2026-13-45T25:61:00Z"
    match topic:
        case "orders":
            return _changed(sound, {"orderedAt": malformed}, violation=Violation("WRONG_TYPE", "ordered_at"))
        case "events":
            wrong = Violation("WRONG_TYPE", "event_timestamp")
            return _changed(sound, {"timestamp": malformed}, within="event", violation=wrong)
    return _changed(sound, {"settledAt": malformed}, flipped=("settledat",))


def _changed(
    sound: Written,
    change: Payload,
    *,
    within: str = "",
    values: Values | None = None,
    violation: Violation | None = None,
    drifted: tuple[tuple[str, str], ...] = (),
    flipped: tuple[str, ...] = (),
) -> Written:
    """The record with some members replaced; None takes one away."""
    level = sound.payload[within] if within else sound.payload
    members = {name: value for name, value in (level | change).items() if value is not None}
    payload = sound.payload | {within: members} if within else members
    kept = {} if violation else sound.values | (values or {})
    return Written(payload, kept, violation, drifted, flipped)
