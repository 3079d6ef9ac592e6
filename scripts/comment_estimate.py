"""For action.yml: write an estimate to the job's summary and outputs, and to one comment on the pull request.

    python scripts/comment_estimate.py estimate.json report.md

The comment begins with a mark, by which the next run finds and replaces it. The REST API is the one that GitHub names
in GITHUB_API_URL. A token that may not comment, as on pull requests from forks, gives a warning and no failure.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MARK = "<!-- shiftgauge estimate -->"
#: The longest comment that GitHub takes.
LONGEST = 65_536
PAGE = 100


def body_of(estimate: dict[str, Any], report: str) -> str:
    """The comment: the mark, what the limit says, the report."""
    lines = [MARK, report.strip()]
    if "limit" in estimate:
        limit = estimate["limit"]
        side = "**above**" if limit["exceeded"] else "not above"
        lines.insert(
            1, f"{limit['on']} {limit['value']:.1%} is {side} the limit of {limit['fail_above']:.1%}\n"
        )
    text = "\n".join(lines)
    return text if len(text) <= LONGEST else text[: LONGEST - 20] + "\n\n(shortened)"


def outputs_of(estimate: dict[str, Any]) -> dict[str, str]:
    """The outputs of the step."""
    answer = estimate["estimates"][0]
    shown = answer["range"] or answer.get("interval") or {}
    exceeded = estimate.get("limit", {}).get("exceeded", False)
    return {
        "error": str(answer["error"]),
        "low": str(shown.get("low", "")),
        "high": str(shown.get("high", "")),
        "exceeded": str(exceeded).lower(),
    }


def call(method: str, path: str, content: dict[str, Any] | None = None) -> Any:
    """Call GitHub's REST API."""
    request = urllib.request.Request(
        f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}",
        data=None if content is None else json.dumps(content).encode(),
        method=method,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def comment(number: int, body: str) -> None:
    """Replace the comment with the mark, or write a new one."""
    page = 1
    while True:
        comments = call("GET", f"issues/{number}/comments?per_page={PAGE}&page={page}")
        for one in comments:
            if (one["body"] or "").startswith(MARK):
                call("PATCH", f"issues/comments/{one['id']}", {"body": body})
                return
        if len(comments) < PAGE:
            break
        page += 1
    call("POST", f"issues/{number}/comments", {"body": body})


def pull_request() -> int | None:
    """The number of the pull request that started the workflow, or None."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event.get("pull_request", {}).get("number")
    return None if number is None else int(number)


def append(variable: str, text: str) -> None:
    """Append to the file that GitHub names in a variable."""
    with open(os.environ[variable], "a", encoding="utf-8") as file:
        file.write(text + "\n")


def main(estimate_file: str, report_file: str) -> None:
    """Write the summary, the outputs and the comment."""
    estimate = json.loads(Path(estimate_file).read_text(encoding="utf-8"))
    body = body_of(estimate, Path(report_file).read_text(encoding="utf-8"))
    append("GITHUB_STEP_SUMMARY", body)
    for name, value in outputs_of(estimate).items():
        append("GITHUB_OUTPUT", f"{name}={value}")
    number = pull_request() if os.environ.get("COMMENT") == "true" else None
    if number is None:
        return
    try:
        comment(number, body)
    except (urllib.error.URLError, TimeoutError) as problem:
        print(f"::warning::the estimate was not commented on the pull request: {problem}")


if __name__ == "__main__":
    main(*sys.argv[1:])
