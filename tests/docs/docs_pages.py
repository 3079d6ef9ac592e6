"""Where the documentation is, its pages, and their fenced blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Seconds that a page may take: no test depends on a quiet machine.
LIMIT = 1800
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line it begins at."""

    language: str
    text: str
    line: int


def pages():
    return sorted(path for path in DOCS.rglob("*.md"))


def blocks(path):
    text = path.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 1) for m in FENCE.finditer(text)]
