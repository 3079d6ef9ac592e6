"""Docstring examples as code: lines from `>>>` to the next blank line are put between fences."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Called for every object whose docstring the site shows."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Fence the examples."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its examples between fences."""
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            out += ["", "```python"]
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line)
    return "\n".join([*out, "```"] if inside else out)
