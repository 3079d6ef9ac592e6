"""`shiftgauge methods`: every method with one line on what it is."""

from __future__ import annotations

from typing import Any

from shiftgauge.cli import options
from shiftgauge.cli.records import echo_json
from shiftgauge.cli.screen import console, print_lines, wrapped
from shiftgauge.methods import METHODS

#: Options that some methods take, and what they say.
TAKES = {"marginal": "says which label shares it assumes", "second": "names another model, which it needs"}


def methods(as_json: options.AsJson = False) -> None:
    """List the methods: the name to pass to --method, what it is, and what it needs besides the scores."""
    entries = [_entry(name) for name in METHODS]
    if as_json:
        echo_json({"methods": entries})
        return
    out = console()
    for one in entries:
        print_lines(out, wrapped(f"{one['name']:<13} ", one["meaning"]))
    out.print()
    for option, why in TAKES.items():
        names = ", ".join(one["name"] for one in entries if option in one["takes"])
        print_lines(out, wrapped("", f"--{option} {why}: {names}", "  "))


def _entry(name: str) -> dict[str, Any]:
    from shiftgauge.methods.registry import accepts

    method = METHODS[name]
    takes = ["marginal"] * accepts(method, "marginal") + ["second"] * method.needs_second
    return {"name": name, "title": method.title, "meaning": method.meaning, "takes": takes}
