"""Records: typed values that leave the monitor as JSON, and what pydantic says of a value that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, WithJsonSchema

from shiftgauge.errors import nearest
from shiftgauge.monitor.periods import iso
from shiftgauge.monitor.problems import ApiProblem, invalid

#: Microseconds since 1970; ISO 8601 in JSON.
Time = Annotated[
    int,
    PlainSerializer(iso, return_type=str, when_used="json-unless-none"),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]


class Record(BaseModel):
    """The base of what the API returns; the OpenAPI follows from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_dict(self) -> dict[str, Any]:
        """As values of JSON."""
        return self.model_dump(mode="json", by_alias=True)


class ProblemBody(Record):
    """A problem (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    ids: list[str] | None = Field(
        default=None, description="of a conflict: ids that are stored with other content"
    )


#: Fields that a problem speaks of, at most.
MOST_FIELDS = 50


def explain(error: ValidationError, what: str, known: dict[str, list[str]]) -> ApiProblem:
    """The first thing that is wrong with a JSON object, in one line; `fields` holds one line for each field.

    Args:
        known: the names of its fields, and those of the objects within it by their name.
    """
    fields: dict[str, str] = {}
    for one in error.errors()[:MOST_FIELDS]:
        path = ".".join(part for part in one["loc"] if isinstance(part, str))
        fields.setdefault(path, _explain_one(one, what, known))
    return invalid(next(iter(fields.values())), fields=fields)


def _explain_one(error: Mapping[str, Any], what: str, known: dict[str, list[str]]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        group, _, name = where.rpartition(".")
        names = known.get(group, [])
        return (
            f"{group or what}: {name[:60]!r} is not known{nearest(name, names)}; known are {', '.join(names)}"
        )
    if error["type"] == "missing":
        return f"{what}: {where!r} is missing; wanted it"
    if error["type"] in ("model_type", "model_attributes_type"):
        return f"{where or what}: arrived as {type(error['input']).__name__}; wanted a JSON object"
    if error["type"] == "value_error":  # of a check of ours, whose words are complete
        return str(error["ctx"]["error"])
    words = error["msg"].replace("Input should be", "wanted").replace("a valid ", "a ")
    words = words.replace("integer", "whole number").replace("tuple", "list")
    # Lists and objects are not repeated: they may hold secrets.
    arrived = "" if isinstance(error["input"], list | tuple | dict) else f" {str(error['input'])[:40]!r}"
    return f"{where[:60]}{arrived}: {words[:1].lower()}{words[1:]}"
