"""Messages to webhooks: signed, shaped, tried again with growing pauses, and kept where they cannot be delivered."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import os
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import select, update

from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.queue import Job, LostLease
from shiftgauge.monitor.db.schema import models, outbox
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import SECOND, now_us
from shiftgauge.monitor.settings import SECRET_PREFIX, Webhook, from_stored

#: 12 tries: 10 s, 20 s, ... in all about a day; then it is given up, and shown.
FIRST_PAUSE, LONGEST_PAUSE, TRIES = 10 * SECOND, 4 * 3600 * SECOND, 12
TIMEOUT = 10.0
#: Networks beyond the public internet that whoever runs the server allows, such as `10.0.0.0/8,127.0.0.1`.
ALLOWED_NETWORKS = "SHIFTGAUGE_WEBHOOK_NETWORKS"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: NAT64 (RFC 6052): the last 32 bits are an IPv4 address.
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


def deliver(store: Store, job: Job) -> None:
    """Send one message of the outbox."""
    with store.read() as connection:
        row = connection.execute(select(outbox).where(outbox.c.id == job.subject)).first()
        model = (
            None
            if row is None
            else connection.execute(select(models).where(models.c.id == row.model_id)).one()
        )
    if row is None or model is None or row.delivered is not None:
        return _end(store, job, {})
    webhook = from_stored(json.loads(model.settings)).webhook
    problem = (
        "the model has no webhook any more"
        if webhook is None
        else send(webhook, row.id, json.loads(row.body))
    )
    now = now_us()
    if problem is None:
        return _end(store, job, {"delivered": now, "attempts": row.attempts + 1, "problem": None})
    attempts = row.attempts + 1
    due = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1))
    last = attempts >= TRIES or webhook is None
    values = {"attempts": attempts, "problem": problem[:500], "due": due, "given_up": last}
    return _end(store, job, values, None if last else due)


def _end(store: Store, job: Job, values: dict[str, Any], again: int | None = None) -> None:
    with store.write() as connection:
        if values:
            connection.execute(update(outbox).where(outbox.c.id == job.subject).values(**values))
        if not queue.finish(connection, job, again):
            raise LostLease


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
        allowed = [
            ipaddress.ip_network(text.strip())
            for text in os.environ.get(ALLOWED_NETWORKS, "").split(",")
            if text.strip()
        ]
    except (OSError, UnicodeError) as problem:
        return [], f"the webhook's host cannot be found ({problem})"
    except ValueError as problem:
        return [], f"{ALLOWED_NETWORKS} cannot be read ({problem})"
    addresses = list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).split("%")[0]) for entry in entries))
    for address in addresses:
        if not is_public(address) and not any(address in network for network in allowed):
            return [], (
                f"the webhook's host is {address}, which is not an address of the public internet; whoever runs "
                f"the monitor may allow it with {ALLOWED_NETWORKS}={address}"
            )
    return addresses, None


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
