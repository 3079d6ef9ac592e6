"""Provenance in every command's JSON: the time, the version, the options, digests of the inputs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shiftgauge.results import SCHEMA

if TYPE_CHECKING:
    from shiftgauge.rows import Rows
    from shiftgauge.samples import Source, Target


def print_json(
    document: dict[str, Any], context: typer.Context, source: Source, target: Target | Rows | None = None
) -> None:
    """Print a command's answer as JSON, with its provenance."""
    from shiftgauge.reports.provenance import provenance

    origin = provenance(source, target, options_of(context), about(context))
    echo_json({**document, "provenance": origin})


def echo_json(document: dict[str, Any]) -> None:
    """Print a document as one line of JSON, with the version of its schema."""
    typer.echo(json.dumps({"schema": SCHEMA, **document}, allow_nan=False))


def about(context: typer.Context) -> dict[str, Any]:
    """The files, the command and the time, as the report prints them."""
    given = {name: context.params.get(name) for name in ("source", "target")}
    names = {side: None if path is None else Path(path).name for side, path in given.items()}
    return {**names, "command": command_line(context), "made": now()}


def options_of(context: typer.Context) -> dict[str, Any]:
    """Every option of the call with its value, defaults included."""
    files = {p.name for p in context.command.params if p.param_type_name == "argument"}
    return {name: _plain(value) for name, value in context.params.items() if name not in files}


def command_line(
    context: typer.Context, command: str | None = None, names: Collection[str] | None = None
) -> str:
    """The command line that gives the same answer: arguments, and options that differ from their defaults.

    Args:
        context: of the call.
        command: another command for the same files.
        names: the options that it takes too.
    """
    words = ["shiftgauge", command or context.info_name or ""]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if names is not None and parameter.param_type_name != "argument" and parameter.name not in names:
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is not None and value is not False and value != parameter.default:
            flag = max(parameter.opts, key=len)
            many = value if isinstance(value, list | tuple) else [value]
            for one in many:
                words += [flag] if one is True else [flag, str(one)]
    return shlex.join(words)


def now() -> str:
    """The time, in UTC, as ISO 8601."""
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
