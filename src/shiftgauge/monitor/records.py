"""Records: typed values that leave the monitor as JSON, and what pydantic says of a value that does not fit."""

from __future__ import annotations

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


def explain(error: ValidationError, what: str, known: dict[str, list[str]]) -> ApiProblem:
    """The first thing that is wrong with a JSON object, in one line.

    Args:
        error: pydantic's.
        what: the name of the object.
        known: the names of its fields, and those of the objects within it by their name.
    """
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        group, _, name = where.rpartition(".")
        names = known.get(group, [])
        return invalid(
            f"{group or what}: {name[:60]!r} is not known{nearest(name, names)}; known are {', '.join(names)}"
        )
    if first["type"] == "missing":
        return invalid(f"{what}: {where!r} is missing; wanted it")
    if first["type"] in ("model_type", "model_attributes_type"):
        kind = type(first["input"]).__name__
        return invalid(f"{where or what}: arrived as {kind}; wanted a JSON object")
    words = first["msg"].replace("Input should be", "wanted").replace("a valid ", "a ")
    words = words.replace("integer", "whole number").replace("tuple", "list")
    return invalid(f"{where[:60]} {str(first['input'])[:40]!r}: {words[:1].lower()}{words[1:]}")
