"""What the site says of itself: the version, where the source is, and the JSON Schema that ships with the package."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
#: Code within a sentence (that of a block follows an empty span), and the options in it.
CODE, OPTION = re.compile(r"(?<!</span>)<code>[^<\n]*</code>"), re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
SCHEMA = ROOT / "src" / "shiftgauge" / "data" / "schema.json"


def on_config(config: Any) -> Any:
    """Put the version into the foot of every page, and the source beside it where the builder knows it."""
    source = os.environ.get(
        "SHIFTGAUGE_SOURCE", ""
    )  # https://..., given by the workflow that publishes the site
    link = f'<a href="{source}">source</a>' if re.fullmatch(r"https://[\w./-]+", source) else ""
    config.copyright = " · ".join(filter(None, [f"shiftgauge {version()}", link]))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Serve the schema as schema.json."""
    files.append(File.generated(config, "schema.json", abs_src_path=str(SCHEMA)))
    return files


def on_page_content(html: str, **kwargs: Any) -> str:
    """Options in a sentence stay in one piece: a phone would break `--quiet` after its dashes."""
    return CODE.sub(lambda found: OPTION.sub(r'<span class="option">\g<0></span>', found[0]), html)


def version() -> str:
    """The version that the source holds."""
    text = (ROOT / "src" / "shiftgauge" / "_version.py").read_text(encoding="utf-8")
    return re.search(r'__version__ = "([^"]+)"', text)[1]  # type: ignore[index]
