"""The base of every frozen model, and how a model's complaints become findings."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from lean_ops.config.findings import nearest, shown
from lean_ops.config.strict_yaml import REFUSED, Location

# What pydantic's kinds of error ask for, in the words of the person who writes the file.
_EXPECTED = {
    "bool_type": "true or false",
    "float_type": "a number",
    "greater_than_equal": "a number of at least {ge:g}",
    "int_type": "a whole number",
    "less_than_equal": "a number of at most {le:g}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_long": "text of at most {max_length} characters",
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "tuple_type": "a list",
}


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
    """Every fault of a failed validation, in words that name what was found and what is expected.

    What the parser refused has its finding already, better than a model could word it.
    """
    faults = error.errors(include_url=False)
    return [_complaint(model, details) for details in faults if details["input"] is not REFUSED]


def merged(defaults: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The document laid over the defaults: mappings merge key by key, anything else replaces."""
    result = dict(defaults)
    for key, value in document.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _complaint(model: type[BaseModel], details: ErrorDetails) -> Complaint:
    location, kind, found = tuple(details["loc"]), details["type"], shown(details["input"])
    context = details.get("ctx", {})
    if kind == "missing":
        return Complaint(location, "nothing", "a value: this key is required")
    if kind == "extra_forbidden":
        known = _keys_at(model, location[:-1])
        return Complaint(location, "an unknown key", ", ".join(known), nearest(location[-1], known))
    if kind == "model_type":
        return Complaint(location, found, f"keys and values: {', '.join(_keys_at(model, location))}")
    if kind == "literal_error":
        choices = [choice.strip("'") for choice in str(context["expected"]).replace(" or ", ", ").split(", ")]
        return Complaint(location, found, str(context["expected"]), nearest(details["input"], choices))
    if kind == "value_error":
        reason = context["error"]
        return Complaint(location, found, str(reason), getattr(reason, "nearest", ""))
    wording = _EXPECTED.get(kind)
    return Complaint(location, found, wording.format(**context) if wording else details["msg"])


def _keys_at(model: type[BaseModel], location: Iterable[str | int]) -> list[str]:
    """The keys that may stand at a place of the document."""
    current: Any = model
    for step in location:
        current = _model_of(current.model_fields[step].annotation) if isinstance(step, str) else current
    return [field.alias or name for name, field in current.model_fields.items()]


def _model_of(annotation: Any) -> Any:
    """The model inside an annotation such as `tuple[Column, ...]` or `Model | None`."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, tuple):
        models = [_model_of(argument) for argument in typing.get_args(annotation)]
        return next(model for model in models if model is not None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
