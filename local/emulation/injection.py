"""The error-injection file: how often each kind of trouble comes up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from pydantic import Field, model_validator

from lean_ops.config import reviewed_file
from lean_ops.config.specs import Spec
from lean_ops.errors import ConfigError

DEFAULT_FILE: Final = Path(__file__).with_name("injection.yaml")

Trouble = Literal[
    "duplicate",
    "forgotten_duplicate",
    "correction",
    "new_column",
    "vanished_column",
    "type_flip",
    "empty_payload",
    "cut_off_payload",
    "missing_cde",
    "malformed_timestamp",
    "broken_envelope",
]
TROUBLES: Final[tuple[Trouble, ...]] = get_args(Trouble)
Share = Annotated[float, Field(ge=0, le=1)]


class InjectionSpec(Spec):
    """Shares of a day's messages."""

    duplicate: Share = 0.0
    forgotten_duplicate: Share = 0.0
    correction: Share = 0.0
    new_column: Share = 0.0
    vanished_column: Share = 0.0
    type_flip: Share = 0.0
    empty_payload: Share = 0.0
    cut_off_payload: Share = 0.0
    missing_cde: Share = 0.0
    malformed_timestamp: Share = 0.0
    broken_envelope: Share = 0.0

    @model_validator(mode="after")
    def _leaves_room(self) -> InjectionSpec:
        if sum(self.shares.values()) > 1:
            raise ValueError("shares that add up to 1 at most")
        return self

    @property
    def shares(self) -> dict[Trouble, float]:
        return {name: getattr(self, name) for name in TROUBLES}


def load(path: Path) -> InjectionSpec:
    """The shares of a file, or every fault of it."""
    path = path.absolute()
    parsed = reviewed_file.read(path.parent, path)
    if parsed.document is None:
        raise ConfigError(parsed.findings)
    loaded = reviewed_file.validate(InjectionSpec, parsed.document, parsed.document.data)
    findings = (*parsed.findings, *loaded.findings)
    if findings or loaded.spec is None:
        raise ConfigError(findings)
    return loaded.spec
