"""`shiftgauge methods`: every method with one line on what it is."""

from __future__ import annotations

import json
from typing import Any

import typer

from shiftgauge.cli import options
from shiftgauge.cli.screen import console, plain_table
from shiftgauge.methods import METHODS
from shiftgauge.results import SCHEMA


def methods(as_json: options.AsJson = False) -> None:
    """List the methods: the name to pass to --method, what it is, and what it needs besides the scores."""
    entries = [_entry(name) for name in METHODS]
    if as_json:
        typer.echo(json.dumps({"schema": SCHEMA, "methods": entries}, allow_nan=False))
        return
    table = plain_table()
    for heading in ("name", "what it is", "takes"):
        table.add_column(heading, overflow="fold")
    for one in entries:
        table.add_row(one["name"], one["meaning"], ", ".join(one["takes"]))
    out = console()
    out.print(table)
    out.print(
        "\nmarginal: --marginal says which label shares it assumes; second: it needs --second, another model"
    )


def _entry(name: str) -> dict[str, Any]:
    from shiftgauge.methods.registry import accepts

    method = METHODS[name]
    takes = ["marginal"] * accepts(method, "marginal") + ["second"] * method.needs_second
    return {"name": name, "title": method.title, "meaning": method.meaning, "takes": takes}
