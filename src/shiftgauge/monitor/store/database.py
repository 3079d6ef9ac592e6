"""One database, SQLite or PostgreSQL, and the folder beside it; opened, migrated, and asked in transactions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from shiftgauge.errors import FileError, InputError
from shiftgauge.monitor.problems import Problem
from shiftgauge.monitor.store.objects import Objects, Removed
from shiftgauge.monitor.store.schema import secrets

FILE = "monitor.sqlite"
#: How long a writer waits for another one, in seconds.
PATIENCE = 30
#: How often a reader begins again because a file was replaced while it read.
TRIES = 20
#: How long an erasure waits for readers of the write-ahead log, in milliseconds; later a job tries again.
READERS = 500
T = TypeVar("T")
#: Bytes that must be free for the service to be ready: a few requests of the largest size.
LEAST_SPACE = 64 << 20
_FULL = ("database or disk is full", "no space left", "could not extend", "disk quota")


@dataclass(frozen=True)
class Store:
    """A database and its folder.

    Attributes:
        engine: SQLAlchemy's.
        objects: the folder of Parquet files and sources that all processes see.
        secret: the key of the hashes of ids, made with the database.
    """

    engine: Engine
    objects: Objects
    secret: bytes = field(repr=False)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is the embedded one."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, and sees one moment."""
        with _said(NO_SPACE), self.engine.connect() as connection, connection.begin():
            yield connection

    def read_rows(self, work: Callable[[Connection], T]) -> T:
        """The result of `work` in a transaction that reads; begun again if a file was replaced meanwhile."""
        for _ in range(TRIES):
            try:
                with self.read() as connection:
                    return work(connection)
            except Removed as problem:
                missing = problem
        raise FileError(f"{missing}: this file of the monitor's folder is missing")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes; durable when it returns, or nothing of it."""
        with _said(NOT_ACCEPTED), self.engine.connect() as connection:
            connection = connection.execution_options(shiftgauge_write=True)
            with connection.begin():
                yield connection

    def scrub(self) -> bool:
        """Remove what was deleted from the database's files too; False while readers hold the write-ahead log.

        SQLite overwrites deleted content with zeros (`secure_delete`); here its log is written back and emptied.
        PostgreSQL's tables are vacuumed; its own log and backups are the operator's.
        """
        if self.is_sqlite:
            with closing(self.engine.raw_connection()) as held:
                held.execute(f"PRAGMA busy_timeout = {READERS}")
                try:
                    busy = held.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                finally:
                    held.execute(f"PRAGMA busy_timeout = {int(PATIENCE * 1000)}")
            return not busy
        options = {"isolation_level": "AUTOCOMMIT", "shiftgauge_write": True}
        with _said(NO_SPACE), self.engine.connect() as connection:
            connection.execution_options(**options).execute(text("VACUUM batches, plans, erasures"))
        return True

    def check_writable(self) -> None:
        """Write a little to the database and to the folder; a `Problem` where that fails or space runs out."""
        try:
            with _said(NO_SPACE):
                self.objects.drop(self.objects.put("checks", 0, "tmp", bytes(4096)))
                free = shutil.disk_usage(self.objects.folder).free
        except OSError as problem:
            said = f"the monitor's folder cannot be written to ({problem.strerror})"
            raise Problem(503, "folder-unavailable", said) from None
        if free < LEAST_SPACE:
            raise full(NO_SPACE)
        with self.write() as connection:  # the same value again is written all the same
            connection.execute(text("UPDATE alembic_version SET version_num = version_num"))

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def open_store(data: str | Path, database: str | None = None, *, migrate: bool = True) -> Store:
    """Open the monitor's database, creating or migrating it, and the folder `data`.

    Args:
        data: the folder of everything; with PostgreSQL of the files only.
        database: `postgresql://...`, or None for SQLite in the folder.
        migrate: bring an older database up to date first.
    """
    folder = Path(data)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{data}: cannot be used as the monitor's folder ({problem.strerror})") from None
    url = _address(database) if database else f"sqlite:///{(folder / FILE).absolute()}"
    engine = _engine(url)
    if migrate:
        from shiftgauge.monitor.store.migrate import bring_up_to_date

        with _opened(url):
            bring_up_to_date(engine)
    with _opened(url), engine.connect() as connection:
        secret = connection.execute(select(secrets.c.value).where(secrets.c.name == "ids")).scalar_one()
    return Store(engine, Objects(folder / "objects"), bytes(secret))


def _address(database: str) -> str:
    for old in ("postgresql://", "postgres://"):
        if database.startswith(old):
            return "postgresql+psycopg://" + database.removeprefix(old)
    raise InputError(
        f"--database {database.split('@')[-1]!r}: wanted postgresql://USER@HOST/NAME, or nothing for SQLite"
    )


def _engine(url: str) -> Engine:
    hidden: Any = {"hide_parameters": True}  # they hold rows, and errors are logged
    try:
        if url.startswith("sqlite"):
            engine = create_engine(url, connect_args={"timeout": PATIENCE, "isolation_level": None}, **hidden)
            event.listen(engine, "connect", _sqlite_connected)
        else:
            engine = create_engine(
                url, pool_pre_ping=True, pool_size=10, connect_args={"connect_timeout": 10}, **hidden
            )
        event.listen(engine, "begin", _begun)
        return engine
    except (ArgumentError, NoSuchModuleError) as problem:
        raise InputError(f"--database: cannot be understood ({problem})") from None


def _sqlite_connected(connection: Any, _: Any) -> None:
    # FULL: a commit is on the disk, not only in the operating system's hands, before anybody is told.
    # secure_delete: what is deleted is overwritten.
    pragmas = (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "cache_size=-65536",
        "secure_delete=ON",
    )
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")


def _begun(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        # A writer takes its turn at once: one that reads first and writes later can be refused in between.
        write = connection.get_execution_options().get("shiftgauge_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
    elif not connection.get_execution_options().get("shiftgauge_write"):
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))


@contextmanager
def _opened(url: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as problem:
        line = str(problem.orig).strip().splitlines()[0]
        raise FileError(f"the database {url.split('@')[-1]} cannot be opened ({line})") from None


@contextmanager
def _said(no_space: str) -> Iterator[None]:
    """A full disk and a lost database become problems that callers can read; the rest is ours."""
    try:
        yield
    except DBAPIError as problem:
        reason = str(problem.orig).lower()
        if any(word in reason for word in _FULL):
            raise full(no_space) from None
        if problem.connection_invalidated or _is_gone(problem):
            raise Problem(503, "database-unavailable", "the database cannot be reached; try again") from None
        raise
    except OSError as problem:
        import errno

        if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise full(no_space) from None
        raise


#: What a full disk means for those who read, and for those who write.
NO_SPACE = "there is no space left on the monitor's disk; free some and try again"
NOT_ACCEPTED = "there is no space left to keep the rows; nothing was accepted, send it again later"


def full(detail: str) -> Problem:
    """507: the disk is full."""
    return Problem(507, "disk-full", detail)


def _is_gone(problem: DBAPIError) -> bool:
    name = type(problem.orig).__name__
    said = str(problem.orig).lower()
    gone = (
        "locked",
        "unable to open",
        "disk i/o error",
        "connection",
        "terminating",
        "shutting down",
        "starting up",
    )
    return name in ("OperationalError", "AdminShutdown", "InterfaceError", "CannotConnectNow") and any(
        word in said for word in gone
    )
