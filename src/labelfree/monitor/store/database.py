"""One database, SQLite or PostgreSQL, and the folder beside it; opened, migrated, and asked in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from labelfree.errors import FileError, InputError
from labelfree.monitor.problems import Problem
from labelfree.monitor.store.objects import Objects

FILE = "monitor.sqlite"
#: How long a writer waits for another one, in seconds.
PATIENCE = 30
_FULL = ("database or disk is full", "no space left", "could not extend", "disk quota")


@dataclass(frozen=True)
class Store:
    """A database and its folder.

    Attributes:
        engine: SQLAlchemy's.
        objects: the folder of Parquet files and sources that all processes see.
    """

    engine: Engine
    objects: Objects

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is the embedded one."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, and sees one moment."""
        with _said(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes; durable when it returns, or nothing of it."""
        with _said(), self.engine.connect() as connection:
            connection = connection.execution_options(labelfree_write=True)
            with connection.begin():
                yield connection

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
        from labelfree.monitor.store.migrate import bring_up_to_date

        with _opened(url):
            bring_up_to_date(engine)
    return Store(engine, Objects(folder / "objects"))


def _address(database: str) -> str:
    for old in ("postgresql://", "postgres://"):
        if database.startswith(old):
            return "postgresql+psycopg://" + database.removeprefix(old)
    raise InputError(
        f"--database {database.split('@')[-1]!r}: wanted postgresql://USER@HOST/NAME, or nothing for SQLite"
    )


def _engine(url: str) -> Engine:
    try:
        if url.startswith("sqlite"):
            engine = create_engine(url, connect_args={"timeout": PATIENCE, "isolation_level": None})
            event.listen(engine, "connect", _sqlite_connected)
        else:
            engine = create_engine(
                url, pool_pre_ping=True, pool_size=10, connect_args={"connect_timeout": 10}
            )
        event.listen(engine, "begin", _begun)
        return engine
    except (ArgumentError, NoSuchModuleError) as problem:
        raise InputError(f"--database: cannot be understood ({problem})") from None


def _sqlite_connected(connection: Any, _: Any) -> None:
    # FULL: a commit is on the disk, not only in the operating system's hands, before anybody is told.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-65536"):
        connection.execute(f"PRAGMA {pragma}")


def _begun(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        # A writer takes its turn at once: one that reads first and writes later can be refused in between.
        write = connection.get_execution_options().get("labelfree_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
    elif not connection.get_execution_options().get("labelfree_write"):
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))


@contextmanager
def _opened(url: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as problem:
        line = str(problem.orig).strip().splitlines()[0]
        raise FileError(f"the database {url.split('@')[-1]} cannot be opened ({line})") from None


@contextmanager
def _said() -> Iterator[None]:
    """A full disk and a lost database become problems that callers can read; the rest is ours."""
    try:
        yield
    except DBAPIError as problem:
        reason = str(problem.orig).lower()
        if any(word in reason for word in _FULL):
            raise full() from None
        if problem.connection_invalidated or _is_gone(problem):
            raise Problem(503, "database-unavailable", "the database cannot be reached; try again") from None
        raise
    except OSError as problem:
        import errno

        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full() from None
        raise


def full() -> Problem:
    """507: nothing was accepted."""
    return Problem(
        507, "disk-full", "there is no space left to keep the rows; nothing was accepted, send it again later"
    )


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
