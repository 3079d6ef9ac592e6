"""Messages to webhooks: signed, shaped, tried again with growing pauses, and kept where they cannot be delivered."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import select, update

from labelfree.monitor.clock import now_us
from labelfree.monitor.jobs.windows import LostLease
from labelfree.monitor.settings import Webhook, from_stored
from labelfree.monitor.spans import SECOND
from labelfree.monitor.store import Store, queue
from labelfree.monitor.store.queue import Job
from labelfree.monitor.store.schema import models, outbox

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
    """Send one message; None where it arrived, else what went wrong."""
    import httpx

    reason = _forbidden(webhook.url)
    if reason is not None:
        return reason
    content = json.dumps(shaped(webhook.shape, body)).encode()
    try:
        with httpx.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client:
            answer = client.post(
                webhook.url, content=content, headers=headers(webhook, number, content, now_us())
            )
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return None if answer.is_success else f"the webhook answered {answer.status_code}"


def headers(webhook: Webhook, number: int, content: bytes, now: int) -> dict[str, str]:
    """Headers of a message, signed as Standard Webhooks does: HMAC-SHA256 over id, time and body."""
    stamp, name = str(now // SECOND), f"msg_{number}"
    out = {"content-type": "application/json", "webhook-id": name, "webhook-timestamp": stamp}
    if webhook.secret:
        signed = f"{name}.{stamp}.".encode() + content
        digest = hmac.new(webhook.secret.encode(), signed, hashlib.sha256).digest()
        out["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return out


def shaped(shape: str, body: dict[str, Any]) -> dict[str, Any]:
    """The message as the receiver wants it: all fields, or a text for Slack.

    >>> shaped("slack", {"event": "fired", "model": "m", "message": "no rows"})["text"]
    ':rotating_light: *m*: no rows'
    """
    if shape == "json":
        return body
    sign = ":rotating_light:" if body["event"] == "fired" else ":white_check_mark: resolved,"
    # Slack reads &, < and > as markup; names cannot hold them, but reasons could.
    message = body["message"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": f"{sign} *{body['model']}*: {message}"}


def _forbidden(url: str) -> str | None:
    """Link-local addresses (cloud metadata among them) are no place for a webhook."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        return f"the webhook's host cannot be found ({problem})"
    for *_, address in found:
        if ipaddress.ip_address(str(address[0]).split("%")[0]).is_link_local:
            return "the webhook's host is a link-local address, which is refused"
    return None
