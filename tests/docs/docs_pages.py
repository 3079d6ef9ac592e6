"""Where the documentation is, its pages, and their fenced blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Seconds that a page may take: no test depends on a quiet machine.
LIMIT = 1800
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r'title="([\w.-]+\.py)"')
WITHIN = re.compile(r'title="[^"]*within ([\d.]+)')


@dataclass(frozen=True)
class Block:
    """A fenced block: language, text, first line, how far its numbers may be off, and the file that it is."""

    language: str
    text: str
    line: int
    tolerance: float = 0.0
    file: str | None = None


def pages():
    return sorted(path for path in DOCS.rglob("*.md"))


def blocks(path):
    text = path.read_text(encoding="utf-8")
    return [
        Block(m[1], m[3], text[: m.start()].count("\n") + 1, tolerance(m[2]), file_name(m[2]))
        for m in FENCE.finditer(text)
    ]


def tolerance(info):
    """What the title of an output states: `text title="numbers within 0.5 with other versions"`."""
    found = WITHIN.search(info)
    return float(found[1]) if found else 0.0


def file_name(info):
    """The file that a block shows: `python title="my_module.py"`."""
    found = FILE.search(info)
    return found[1] if found else None


def sections(path):
    """The text of a page from heading to heading, outside of blocks and tables."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
    return re.split(r"^(?=#+ )", "\n".join(lines), flags=re.M)
