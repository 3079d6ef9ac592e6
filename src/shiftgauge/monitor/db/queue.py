"""Jobs in the database, with leases: several workers share them, and a killed one loses nothing.

A job is one kind of work on one subject, and stands there at most once. To enqueue it again while it is under way
counts up `wanted`: it is then done once more. A worker takes a job by writing its name and a lease, which it
keeps alive while it works; its results are committed in the transaction that ends the job, only if the lease is
still its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from shiftgauge.monitor.db.schema import jobs
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import SECOND, now_us

#: How long a worker may be silent; SHIFTGAUGE_LEASE_SECONDS sets another time.
LEASE = int(float(os.environ.get("SHIFTGAUGE_LEASE_SECONDS", "60")) * SECOND)
#: Waiting after failures: 5 s, 10 s, 20 s, ... up to an hour.
FIRST_WAIT, LONGEST_WAIT = 5 * SECOND, 3600 * SECOND
#: Clocks of machines that share a database may differ by so much. A job that was set further in the future was set
#: before the clock went back: it is due, and its lease is over.
SKEW = 300 * SECOND
#: Alerts and their messages take a moment, and must not wait behind a day of estimates.
FIRST = ("deliver", "alerts")


@dataclass(frozen=True)
class Job:
    """A job that is ours for the length of its lease."""

    id: int
    kind: str
    subject: int
    wanted: int
    cause: str
    attempts: int
    owner: str


def enqueue(connection: Connection, kind: str, subjects: Iterable[int], due: int, cause: str = "") -> None:
    """Ask for a job on each subject, due at a time; one that stands there already keeps its earlier time."""
    now = now_us()
    rows = [{"kind": kind, "subject": s, "due": due, "cause": cause, "updated": now} for s in subjects]
    if not rows:
        return
    connection.execute(_enqueue_statement(connection.dialect.name), rows)


@lru_cache
def _enqueue_statement(dialect: str) -> Any:
    """The statement of `enqueue`, built once: it is part of every commit of rows."""
    insert = (sqlite if dialect == "sqlite" else postgresql).insert(jobs)
    least = func.min if dialect == "sqlite" else func.least
    return insert.on_conflict_do_update(
        index_elements=["kind", "subject"],
        set_={
            "due": least(jobs.c.due, insert.excluded.due),
            "wanted": jobs.c.wanted + 1,
            "cause": insert.excluded.cause,
            "updated": insert.excluded.updated,
            "attempts": 0,
        },
    )


def claim(store: Store, owner: str, replaying: bool = False) -> Job | None:
    """Take the job that has been due longest, alerts and messages first; or None.

    A replay takes place in the past, where every job of another model was set in the future: it leaves them alone.
    """
    now = now_us()
    free = and_(jobs.c.due <= now, or_(jobs.c.lease.is_(None), jobs.c.lease < now))
    if not replaying:
        free = or_(free, jobs.c.updated > now + SKEW)
    with store.read() as connection:  # most looks find nothing: they must not hold up those who write
        if connection.execute(select(jobs.c.id).where(free).limit(1)).first() is None:
            return None
    pick = select(jobs.c.id).where(free).order_by(jobs.c.kind.not_in(FIRST), jobs.c.due, jobs.c.id).limit(1)
    with store.write() as connection:
        if not store.is_sqlite:
            pick = pick.with_for_update(skip_locked=True)
        row = connection.execute(
            update(jobs)
            .where(jobs.c.id == pick.scalar_subquery())
            .values(owner=owner, lease=now + LEASE, updated=now, attempts=jobs.c.attempts + 1)
            .returning(jobs)
        ).first()
    if row is None:
        return None
    return Job(row.id, row.kind, row.subject, row.wanted, row.cause, row.attempts, owner)


def renew(store: Store, job: Job) -> bool:
    """Keep the lease alive; False if it was lost."""
    with store.write() as connection:
        now = now_us()
        done = connection.execute(update(jobs).where(_ours(job)).values(lease=now + LEASE, updated=now))
    return done.rowcount == 1


def finish(connection: Connection, job: Job, again: int | None = None) -> None:
    """End the job within the transaction that keeps its results; raises `LostLease`, which rolls that back.

    A job that was asked for anew meanwhile stays, due at once; with `again` it is due then.
    """
    same = and_(_ours(job), jobs.c.wanted == job.wanted)
    if again is None and connection.execute(delete(jobs).where(same)).rowcount:
        return
    now = now_us()
    due = now if again is None else again
    freed = {"owner": None, "lease": None, "attempts": 0, "due": due, "updated": now}
    if not connection.execute(update(jobs).where(_ours(job)).values(**freed)).rowcount:
        raise LostLease


def end(store: Store, job: Job, again: int | None = None) -> None:
    """End a job that has nothing more to keep."""
    with store.write() as connection:
        finish(connection, job, again)


def retry_later(store: Store, job: Job, problem: str) -> None:
    """After a failure: due again later, with what went wrong."""
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(20, job.attempts - 1))
    now = now_us()
    values = {"owner": None, "lease": None, "due": now + wait, "updated": now, "problem": problem[:1000]}
    with store.write() as connection:
        connection.execute(update(jobs).where(_ours(job)).values(**values))


def _ours(job: Job) -> ColumnElement[bool]:
    return and_(jobs.c.id == job.id, jobs.c.owner == job.owner)


class LostLease(Exception):  # noqa: N818 (nothing is wrong: another worker has taken over)
    """The job is no longer ours; nothing of it may be kept."""
