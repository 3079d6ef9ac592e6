"""What the scripts share: the options --quick and --json."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def parser_of(doc: str, quick: str, numbers: bool = True) -> argparse.ArgumentParser:
    """A parser with --quick, whose meaning is `quick`, and --json if the script has `numbers` to save."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    if numbers:
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here too")
    return parser


def save(options: argparse.Namespace, numbers: Any) -> None:
    """Write what --json asks for."""
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
