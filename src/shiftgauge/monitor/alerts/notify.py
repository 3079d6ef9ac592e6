"""Messages to services through apprise, each in a process of its own that connects to permitted addresses only.

`python -m shiftgauge.monitor.alerts.notify` reads one message as JSON from standard input and writes what went wrong.
The process keeps the URL out of argument lists and logs, ends after a time, and refuses connections to addresses that
webhooks may not be sent to either, whatever a service's name resolves or redirects to.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import subprocess
import sys
from typing import Any

from shiftgauge.monitor.alerts.addresses import refusal, to_address
from shiftgauge.monitor.settings import Notification

TIMEOUT_SECONDS = 30.0
#: What a service does not need: other programs, and this machine's own log.
FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "syslog.syslog")


def notify(one: Notification, body: dict[str, Any]) -> str | None:
    """Send one message; None where it was accepted, else what went wrong, without the URL."""
    resolved = body["event"] == "resolved"
    message = {
        "url": one.url,
        "title": f"{body['model']}: alert {body['event']}",
        "body": body["message"],
        "type": "success" if resolved else "failure",
    }
    # Proxies would connect to addresses that nobody checked.
    environment = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(message),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            env=environment,
            check=False,
        )
        problem: str | None = json.loads(done.stdout)["problem"]
    except subprocess.TimeoutExpired:
        problem = f"no answer within {TIMEOUT_SECONDS:g} seconds"
    except ValueError:  # what it wrote to standard error may hold the URL
        problem = f"the sending process failed (status {done.returncode})"
    return None if problem is None else f"{one.name} ({one.service}): {problem}"


def send(message: dict[str, str]) -> str | None:
    """Send a message in this process; None where it was accepted."""
    refused: list[str] = []

    def check(event: str, args: tuple[Any, ...]) -> None:
        reason = f"{event} is not permitted" if event in FORBIDDEN else None
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = args[1]
            try:
                reason = refusal(to_address(address[0]))
            except (TypeError, ValueError, AttributeError):
                reason = "it connects to something other than an internet address"
        if reason is not None:
            refused.append(reason)
            raise PermissionError(reason)

    try:
        apprise = importlib.import_module("apprise")
    except ImportError:
        return "apprise is not installed where the worker runs; pip install 'shiftgauge[notify]'"
    notes = _Notes()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [notes], False
    service = apprise.Apprise.instantiate(message["url"])
    if service is None:
        return "apprise cannot read its URL"
    sys.addaudithook(check)
    try:
        if service.notify(body=message["body"], title=message["title"], notify_type=message["type"]):
            return None
    except Exception as problem:  # of a service's own code; its text may hold the URL
        notes.status = type(problem).__name__
    why = f": {notes.status}" if notes.status else ""
    return refused[0] if refused else f"the message was not accepted{why}"


class _Notes(logging.Handler):
    """Keeps the HTTP status that apprise logs; the rest of its log can hold the URL."""

    status = ""

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"\berror=(\d{3})\b", record.getMessage())
        self.status = f"status {found[1]}" if found else self.status


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"problem": send(json.load(sys.stdin))}))
