"""Delivery of messages: to webhooks, signed and shaped, or by apprise; tried again with growing pauses, and kept.

Messages go to addresses of the public internet, and to networks that the operator allows. Apprise runs in a process of
its own: `python -m shiftgauge.monitor.alerts.delivery` reads one message as JSON from standard input and writes what
went wrong. The process keeps the URL out of argument lists and logs, ends after a time, and refuses connections to
other addresses, whatever a service's name resolves or redirects to.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import re
import socket
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import select, update

from shiftgauge.errors import MissingDependencyError, optional
from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.queue import Job
from shiftgauge.monitor.db.schema import models, outbox
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import SECOND, now_us
from shiftgauge.monitor.settings import SECRET_PREFIX, Notification, Webhook, stored_settings

#: 12 tries: 10 s, 20 s, ... in all about a day; then it is given up, and shown.
FIRST_PAUSE, LONGEST_PAUSE, TRIES = 10 * SECOND, 4 * 3600 * SECOND, 12
#: Seconds that a webhook, and the process of a notification service, may take.
TIMEOUT, NOTIFICATION_TIMEOUT = 10.0, 30.0
#: What a notification service does not need: other programs, and this machine's own log.
FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "syslog.syslog")
#: Networks beyond the public internet that whoever runs the server allows, such as `10.0.0.0/8,127.0.0.1`.
ALLOWED_NETWORKS = "SHIFTGAUGE_WEBHOOK_NETWORKS"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: NAT64 (RFC 6052): the last 32 bits are an IPv4 address.
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


def deliver(store: Store, job: Job) -> None:
    """Send one message of the outbox."""
    with store.read() as connection:
        row = connection.execute(select(outbox).where(outbox.c.id == job.subject)).one()
        model = connection.execute(select(models).where(models.c.id == row.model_id)).one()
    if row.delivered is not None:
        return queue.end(store, job)
    settings, body = stored_settings(model.settings), json.loads(row.body)
    service = next((one for one in settings.notify if one.name == row.destination), None)
    gone = False
    if service is not None:
        problem = notify(service, body)
    elif row.destination is None and settings.webhook is not None:
        problem = send(settings.webhook, row.id, body)
    else:
        gone, problem = True, f"the model has no {row.destination or 'webhook'} any more"
    now, attempts, due = now_us(), row.attempts + 1, None
    values: dict[str, Any] = {"attempts": attempts, "delivered": now, "problem": None}
    if problem is not None:
        due = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1))
        given_up = gone or attempts >= TRIES
        values = {"attempts": attempts, "problem": problem[:500], "due": due, "given_up": given_up}
        due = None if given_up else due
    with store.write() as connection:
        connection.execute(update(outbox).where(outbox.c.id == row.id).values(**values))
        queue.finish(connection, job, again=due)


def send(webhook: Webhook, number: int, body: dict[str, Any]) -> str | None:
    """Send one message; None where it arrived, else what went wrong.

    The host's name is resolved once, and the request goes to the address that was checked.
    """
    parts = urlsplit(webhook.url)
    host = parts.hostname or ""
    addresses, problem = _resolve(host, parts.port or (443 if parts.scheme == "https" else 80))
    content = json.dumps(webhook_body(webhook.shape, body)).encode()
    signed = headers(webhook, number, content, now_us()) | {"host": parts.netloc.rpartition("@")[2]}
    for address in addresses:
        try:
            # A redirect would lead to an address that nobody checked.
            with httpx.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client:
                url = httpx.URL(webhook.url).copy_with(host=str(address))
                answer = client.post(url, content=content, headers=signed, extensions={"sni_hostname": host})
        except httpx.ConnectError as error:  # the host may have another address
            problem = f"{type(error).__name__}: {error}"
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        else:
            return None if answer.is_success else f"the webhook answered {answer.status_code}"
    return problem


def _resolve(host: str, port: int) -> tuple[list[Address], str | None]:
    """The host's addresses; none, and the reason, where one of them may not be called."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        return [], f"the host cannot be found ({problem})"
    addresses = list(dict.fromkeys(to_address(str(entry[4][0])) for entry in entries))
    refused = next((reason for address in addresses if (reason := refusal(address)) is not None), None)
    return ([], refused) if refused else (addresses, None)


def headers(webhook: Webhook, number: int, content: bytes, now: int) -> dict[str, str]:
    """Headers of a message, signed as Standard Webhooks does: HMAC-SHA256 over id, time and body."""
    timestamp, name = str(now // SECOND), f"msg_{number}"
    out = {"content-type": "application/json", "webhook-id": name, "webhook-timestamp": timestamp}
    if webhook.secret:
        signed = f"{name}.{timestamp}.".encode() + content
        key = base64.b64decode(webhook.secret.removeprefix(SECRET_PREFIX))
        out["webhook-signature"] = (
            f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"
        )
    return out


def webhook_body(shape: str, body: dict[str, Any]) -> dict[str, Any]:
    """The message as the receiver wants it: all fields, or a text for Slack.

    >>> webhook_body("slack", {"event": "fired", "model": "m", "message": "no rows"})["text"]
    ':rotating_light: *m*: no rows'
    """
    if shape == "json":
        return body
    sign = ":white_check_mark: resolved," if body["event"] == "resolved" else ":rotating_light:"
    # Slack reads &, < and > as markup; names cannot hold them, but reasons could.
    message = body["message"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": f"{sign} *{body['model']}*: {message}"}


def to_address(text: str) -> Address:
    """An address as the operating system writes it, without its zone."""
    return ipaddress.ip_address(text.split("%")[0])


def refusal(address: Address) -> str | None:
    """Why no message may be sent to this address; None where it may."""
    try:
        allowed = [
            ipaddress.ip_network(text.strip())
            for text in os.environ.get(ALLOWED_NETWORKS, "").split(",")
            if text.strip()
        ]
    except ValueError as problem:
        return f"{ALLOWED_NETWORKS} cannot be read ({problem})"
    if is_public(address) or any(address in network for network in allowed):
        return None
    return (
        f"the host is {address}, which is not an address of the public internet; whoever runs the monitor may allow it "
        f"with {ALLOWED_NETWORKS}={address}"
    )


def is_public(address: Address) -> bool:
    """Whether this is an address of the public internet, also where an IPv6 address stands for an IPv4 one.

    >>> is_public(ipaddress.ip_address("8.8.8.8")), is_public(ipaddress.ip_address("::ffff:169.254.169.254"))
    (True, False)
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in GLOBAL_UNICAST or (address.sixtofour and not is_public(address.sixtofour)):
            return False
    return address.is_global and not address.is_multicast


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
            timeout=NOTIFICATION_TIMEOUT,
            env=environment,
            check=False,
        )
        problem: str | None = json.loads(done.stdout)["problem"]
    except subprocess.TimeoutExpired:
        problem = f"no answer within {NOTIFICATION_TIMEOUT:g} seconds"
    except ValueError:  # what it wrote to standard error may hold the URL
        problem = f"the sending process failed (status {done.returncode})"
    return None if problem is None else f"{one.name} ({one.service}): {problem}"


def send_by_apprise(message: dict[str, str]) -> str | None:
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
        apprise = optional("apprise", extra="notify", purpose="the worker")
    except MissingDependencyError as problem:
        return str(problem)
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
    sys.stdout.write(json.dumps({"problem": send_by_apprise(json.load(sys.stdin))}))
