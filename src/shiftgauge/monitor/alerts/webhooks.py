"""Delivery of messages: to webhooks, signed and shaped, or by apprise; tried again with growing pauses, and kept."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import select, update

from shiftgauge.monitor.alerts.addresses import Address, refusal, to_address
from shiftgauge.monitor.alerts.notify import notify
from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.queue import Job, LostLease
from shiftgauge.monitor.db.schema import models, outbox
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import SECOND, now_us
from shiftgauge.monitor.settings import SECRET_PREFIX, Webhook, stored_settings

#: 12 tries: 10 s, 20 s, ... in all about a day; then it is given up, and shown.
FIRST_PAUSE, LONGEST_PAUSE, TRIES = 10 * SECOND, 4 * 3600 * SECOND, 12
TIMEOUT = 10.0


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
    settings, body = stored_settings(model.settings), json.loads(row.body)
    service = next((one for one in settings.notify if one.name == row.destination), None)
    gone = settings.webhook is None if row.destination is None else service is None
    if gone:
        problem: str | None = f"the model has no {row.destination or 'webhook'} any more"
    elif service is not None:
        problem = notify(service, body)
    else:
        assert settings.webhook is not None
        problem = send(settings.webhook, row.id, body)
    now = now_us()
    if problem is None:
        return _end(store, job, {"delivered": now, "attempts": row.attempts + 1, "problem": None})
    attempts = row.attempts + 1
    due = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1))
    last = attempts >= TRIES or gone
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
