"""Tokens: who may do what to which model; only hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Any

from pydantic import Field
from sqlalchemy import insert, select, update

from shiftgauge.monitor.db.audit import LOCAL, record_change
from shiftgauge.monitor.db.schema import tokens
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import DAY, now_us
from shiftgauge.monitor.problems import ApiProblem, check_name, invalid, unknown
from shiftgauge.monitor.records import Record, Time

SCOPES = ("ingest", "read", "admin")
LONGEST_DAYS = 36_500
_FORM = re.compile(r"sgm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class TokenView(Record):
    """A token without its secret."""

    id: str = Field(description="the middle of the token")
    name: str = Field(description="what it is for")
    scopes: tuple[str, ...] = Field(description="some of ingest, read and admin; admin includes the others")
    model: str | None = Field(description="the only model it is valid for; null for all")
    created: Time
    expires: Time | None
    revoked: Time | None

    def allows(self, scope: str, model: str | None) -> bool:
        """Whether it is good for this scope on this model (None: on all of them)."""
        mine = self.model is None or (model is not None and self.model == model)
        return mine and (scope in self.scopes or "admin" in self.scopes)


def create_token(
    store: Store, name: str, scopes: list[str], model: str | None = None, days: float | None = None
) -> str:
    """Make a token; this is the only time that it is seen."""
    wrong = [scope for scope in scopes if scope not in SCOPES]
    if wrong or not scopes:
        raise invalid(f"scope {wrong[0] if wrong else ''!r}: wanted some of {', '.join(SCOPES)}")
    if model is not None:
        check_name(model, "model")
    if days is not None and not 0 < days <= LONGEST_DAYS:
        raise invalid(
            f"days {days:g}: wanted a number above 0 and at most {LONGEST_DAYS:,}, or none for ever"
        )
    number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    now = now_us()
    with store.write() as connection:
        connection.execute(
            insert(tokens).values(
                id=number,
                name=name[:200],
                hash=_hash(secret),
                scopes=" ".join(scope for scope in SCOPES if scope in scopes),
                model=model,
                created=now,
                expires=None if days is None else now + int(days * DAY),
            )
        )
        record_change(connection, LOCAL, "create-token", model, name=name[:200], scopes=" ".join(scopes))
    return f"sgm_{number}_{secret}"


def check_token(store: Store, text: str) -> TokenView | None:
    """The token that this text is, if it is one that holds; compared in constant time."""
    match = _FORM.fullmatch(text)
    number, secret = (match[1], match[2]) if match else ("", "")
    with store.read() as connection:
        row = connection.execute(select(tokens).where(tokens.c.id == number)).first()
    same = hmac.compare_digest(_hash(secret), row.hash if row is not None else _hash("no such token"))
    if row is None or not same or row.revoked is not None:
        return None
    if row.expires is not None and row.expires < now_us():
        return None
    return _token_view(row)


def list_tokens(store: Store) -> list[TokenView]:
    """All tokens, oldest first."""
    with store.read() as connection:
        return [_token_view(row) for row in connection.execute(select(tokens).order_by(tokens.c.created))]


def any_tokens(store: Store) -> bool:
    """Whether callers must show one: once a token was made, even if it has been revoked since."""
    with store.read() as connection:
        return connection.execute(select(tokens.c.id).limit(1)).first() is not None


def revoke_token(store: Store, number: str) -> None:
    """End a token."""
    with store.write() as connection:
        change = update(tokens).where(tokens.c.id == number, tokens.c.revoked.is_(None))
        if not connection.execute(change.values(revoked=now_us())).rowcount:
            raise unknown("token", number, list(connection.execute(select(tokens.c.id)).scalars()))
        record_change(connection, LOCAL, "revoke-token", None, id=number)


def forbidden(scope: str, model: str | None) -> ApiProblem:
    """403: a token, but not for this."""
    where = f" on model {model!r}" if model else " on all models"
    return ApiProblem(403, "forbidden", f"this token lacks the scope {scope!r}{where}; ask for one that has")


def _hash(secret: str) -> str:
    # The secret has 256 random bits: a plain hash cannot be guessed backwards, and no salt is needed.
    return hashlib.sha256(secret.encode()).hexdigest()


def _token_view(row: Any) -> TokenView:
    names = ("id", "name", "model", "created", "expires", "revoked")
    return TokenView(scopes=tuple(row.scopes.split()), **{name: getattr(row, name) for name in names})
