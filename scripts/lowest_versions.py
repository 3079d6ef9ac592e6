"""Print the lowest declared version of every run-time dependency, extras included, as pip constraints."""

import re
from pathlib import Path

#: Extras for working on the project itself; of these, only what hands us data.
TOOLS, PEERS = {"bench", "docs", "dev", "dev-all"}, {"duckdb", "pandas", "polars"}

text = Path(__file__).resolve().parent.parent.joinpath("pyproject.toml").read_text(encoding="utf-8")
lowest: dict[str, str] = {}
extra = ""
for line in text.partition("\ndependencies = [")[2].partition("\n[project.scripts]")[0].splitlines():
    if start := re.match(r"([a-z-]+) = \[", line):
        extra = start[1]
    for name, version in re.findall(r'"([A-Za-z0-9_-]+)(?:\[[a-z,]+\])?>=([0-9.]+)', line):
        if extra in TOOLS and name not in PEERS:
            continue
        known = lowest.get(name, "0")
        lowest[name] = max(known, version, key=lambda value: [int(part) for part in value.split(".")])
for name, version in sorted(lowest.items()):
    print(f"{name}=={version}")
