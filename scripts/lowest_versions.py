"""Print the lowest declared version of every run-time dependency, as pip constraints."""

import re
from pathlib import Path

text = Path(__file__).resolve().parent.parent.joinpath("pyproject.toml").read_text()
block = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)
assert block is not None
for name, version in re.findall(r'"([A-Za-z0-9_-]+)>=([0-9.]+)"', block.group(1)):
    print(f"{name}=={version}")
