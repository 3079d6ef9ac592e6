"""The HTTP interface of the monitor and the JSON of the command, generated when the site is built.

A line `<!-- http -->` in a page is replaced by every request that the monitor's OpenAPI document describes, a line
`<!-- schema -->` by every object of the JSON Schema that ships with the package.
"""

from __future__ import annotations

import functools
import html
import json
import tempfile
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).resolve().parents[2] / "src" / "shiftgauge" / "data" / "schema.json"
METHODS = ("get", "put", "post", "delete")


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Called by mkdocs for every page."""
    if "<!-- http -->" in markdown:
        markdown = markdown.replace("<!-- http -->", http_reference(openapi()))
    if "<!-- schema -->" in markdown:
        shipped = json.loads(SCHEMA.read_text(encoding="utf-8"))
        markdown = markdown.replace("<!-- schema -->", objects(shipped["$defs"]))
    return markdown


@functools.cache
def openapi() -> dict[str, Any]:
    """What the monitor serves as /openapi.json."""
    from shiftgauge.monitor.db.store import open_store
    from shiftgauge.monitor.run.app import create_app

    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder, None)
        try:
            return create_app(store).openapi()
        finally:
            store.close()


def http_reference(document: dict[str, Any]) -> str:
    """Every request, then every object that requests and answers hold."""
    lines: list[str] = []
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                lines += [
                    f"### `{method.upper()} {path}`",
                    "",
                    *_request(item[method]),
                    "",
                ]
    return "\n".join([*lines, "## Objects", "", objects(document["components"]["schemas"])])


def _request(operation: dict[str, Any]) -> list[str]:
    lines = [
        _prose(operation.get("description") or operation.get("summary", "")),
        "",
    ]
    if parameters := operation.get("parameters", []):
        lines += ["| parameter | in | type | |", "|---|---|---|---|"]
        for one in parameters:
            kind = type_name(one.get("schema", {}))
            lines.append(f"| `{one['name']}` | {one['in']} | {kind} | {_prose(one.get('description', ''))} |")
        lines.append("")
    if body := operation.get("requestBody", {}).get("content"):
        lines += ["Body: " + _contents(body), ""]
    lines += ["| answer | | |", "|---|---|---|"]
    for code, answer in operation["responses"].items():
        lines.append(
            f"| {code} | {_prose(answer.get('description', ''))} | {_contents(answer.get('content', {}))} |"
        )
    return lines


def _contents(contents: dict[str, Any]) -> str:
    kinds = ((kind, type_name(one.get("schema", {}))) for kind, one in contents.items())
    return "; ".join(f"`{kind}` {name}".strip() for kind, name in kinds)


def objects(schemas: dict[str, Any]) -> str:
    """A section per object, with a table of its fields."""
    lines: list[str] = []
    for name, schema in sorted(schemas.items(), key=lambda one: one[0].lower()):
        lines += [
            f"### {name}",
            "",
            _prose(schema.get("description", "")),
            "",
        ]
        fields = schema.get("properties")
        if not fields:
            lines += [type_name(schema), ""]
            continue
        lines += ["| field | type | |", "|---|---|---|"]
        for field, one in fields.items():
            lines.append(f"| `{field}` | {type_name(one)} | {_prose(one.get('description', ''))} |")
        lines.append("")
    return "\n".join(lines)


def type_name(schema: dict[str, Any]) -> str:
    """The type in a few words, with a link to the object it names."""
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(filter(None, map(type_name, schema[several]))))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{json.dumps(one)}`" for one in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"array of {type_name(schema['items']) or 'anything'}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_name(schema['additionalProperties']) or 'anything'}"
    return f"{kind}, {schema['format']}" if "format" in schema else kind


def _prose(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("{", "&#123;")
