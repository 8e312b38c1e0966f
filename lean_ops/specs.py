"""The base of every frozen model, and how a model's complaints become findings."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from lean_ops.findings import nearest, shown
from lean_ops.strict_yaml import Location


class Spec(BaseModel):
    """Reviewed input: frozen, strict (no silent conversions), and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Complaint(typing.NamedTuple):
    """One fault of a document, before it is known which line it stands on."""

    location: Location
    found: str
    expected: str
    nearest: str = ""


def complaints(model: type[BaseModel], error: ValidationError) -> list[Complaint]:
    """Every fault of a failed validation, in words that name what was found and what is expected."""
    return [_complaint(model, details) for details in error.errors(include_url=False)]


def merged(defaults: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The document laid over the defaults: mappings merge key by key, anything else replaces."""
    result = dict(defaults)
    for key, value in document.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _complaint(model: type[BaseModel], details: ErrorDetails) -> Complaint:
    location, kind = tuple(details["loc"]), details["type"]
    context = details.get("ctx", {})
    if kind == "missing":
        return Complaint(location, "nothing", "a value: this key is required")
    if kind == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        listed = ", ".join(known) if len(known) <= 12 else f"one of {len(known)} known keys"
        return Complaint(location, "an unknown key", listed, nearest(location[-1], known))
    if kind in ("literal_error", "enum"):
        choices = [choice.strip("'") for choice in str(context["expected"]).replace(" or ", ", ").split(", ")]
        close = nearest(details["input"], choices)
        return Complaint(location, shown(details["input"]), str(context["expected"]), close)
    expected = str(context.get("error", details["msg"]))
    return Complaint(location, shown(details["input"]), _sentence(expected))


def _sentence(message: str) -> str:
    for opening in ("Input should be ", "Value error, ", "String should "):
        message = message.removeprefix(opening)
    return message.rstrip(".")


def _fields_at(model: type[BaseModel], location: Iterable[str | int]) -> list[str]:
    current: Any = model
    for step in location:
        current = _model_of(current.model_fields[step].annotation) if isinstance(step, str) else current
    return list(current.model_fields)


def _model_of(annotation: Any) -> Any:
    """The model inside an annotation such as `tuple[Column, ...]` or `Model | None`."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, tuple, list, typing.Annotated):
        models = [_model_of(argument) for argument in typing.get_args(annotation)]
        return next(model for model in models if model is not None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
