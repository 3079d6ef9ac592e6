"""The command reference, generated from the command itself when the site is built.

A line `<!-- command: estimate -->` in a page is replaced by the usage, arguments and options of that command.
"""

from __future__ import annotations

import html
import re
from typing import Any

MARK = re.compile(r"^<!-- command: ([\w -]+) -->$", re.M)


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Called by mkdocs for every page."""
    return MARK.sub(lambda found: reference(found[1]), markdown)


def commands() -> dict[str, Any]:
    """Every command by its words: `estimate`, `bench run`, ..."""
    import typer

    from shiftgauge.cli.app import app

    return dict(_walk(typer.main.get_command(app), ()))


def _walk(command: Any, words: tuple[str, ...]) -> Any:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(words), command
    else:
        for name, one in inner.items():
            yield from _walk(one, (*words, name))


def reference(name: str) -> str:
    """Usage, arguments and options of one command as Markdown."""
    command = commands()[name]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]
    usage = " ".join(["shiftgauge", name, *(_metavar(p) for p in arguments), "[OPTIONS]"])
    lines = [_prose(command.help or ""), "", "```", usage, "```", ""]
    if arguments:
        lines += ["| argument | |", "|---|---|"]
        lines += [f"| `{_metavar(p)}` | {_prose(getattr(p, 'help', '') or '')} |" for p in arguments]
        lines.append("")
    lines += ["| option | | default |", "|---|---|---|"]
    for option in options:
        names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
        lines.append(f"| {names} | {_prose(option.help or '')} | {_default(option)} |")
    return "\n".join(lines)


def _metavar(parameter: Any) -> str:
    name = (parameter.name or "").upper()
    return name if parameter.required else f"[{name}]"


def _default(option: Any) -> str:
    value = option.default
    if isinstance(option.show_default, str):
        return _prose(option.show_default)
    if value in (None, False, [], ()) or callable(value):
        return ""
    return f"`{value}`"


def _prose(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")
