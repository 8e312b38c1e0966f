"""What a contract would do to records that are stored already: what the job that finds out is told, and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from lean_ops.config.specs import Spec
from lean_ops.config.topics import TopicSpec


class EffectArguments(Spec):
    """The contract in question and the one in force, as their files have them."""

    topic: TopicSpec
    contract: str
    active: str | None
    since: Annotated[AwareDatetime, Field(strict=False)]


class BrokenRule(Spec):
    """How many records break a rule under the new contract that were valid before."""

    code: str
    column: str
    rule: str
    records: int


class ContractEffect(Spec):
    """Counts of distinct messages of RAW. A record may break several rules, and is one record all the same.

    `unreadable` are those that no contract can read: they stay parse errors.
    """

    records: int = 0
    unreadable: int = 0
    newly_failing: int = 0
    healed: int = 0
    open_errors: int = 0
    open_errors_healed: int = 0
    broken_rules: Annotated[tuple[BrokenRule, ...], Field(strict=False)] = ()
