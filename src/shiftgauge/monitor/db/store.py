"""The database (SQLite in a folder, or PostgreSQL) and transactions on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select, text, update
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from shiftgauge.errors import FileError, InputError
from shiftgauge.monitor.db.schema import create_tables, installation
from shiftgauge.monitor.problems import ApiProblem

FILE = "monitor.sqlite"
#: How long a writer waits for another one, in seconds.
LOCK_TIMEOUT_SECONDS = 30
#: How long an erasure waits for readers of the write-ahead log, in milliseconds; later a job tries again.
READERS = 500
#: Bytes that must be free for the service to be ready: a few requests of the largest size.
LEAST_SPACE = 64 << 20
_FULL = ("database or disk is full", "no space left", "could not extend", "disk quota")


@dataclass(frozen=True)
class Store:
    """A database.

    Attributes:
        engine: SQLAlchemy's.
        folder: of SQLite's file; with PostgreSQL nothing is kept there.
        secret: the key of the hashes of ids, made with the database.
    """

    engine: Engine
    folder: Path
    secret: bytes = field(repr=False)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is the embedded one."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, and sees one moment."""
        begin = "BEGIN" if self.is_sqlite else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with _database_errors(NO_SPACE), self.engine.begin() as connection:
            connection.exec_driver_sql(begin)
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes; durable when it returns, or nothing of it."""
        with _database_errors(NOT_ACCEPTED), _begin_write(self.engine) as connection:
            yield connection

    def scrub(self) -> bool:
        """Remove what was deleted from the database's files too; False while readers hold the write-ahead log.

        SQLite overwrites deleted content with zeros (`secure_delete`); here its log is written back and emptied.
        PostgreSQL's tables are vacuumed; its own log and backups are the operator's.
        """
        if self.is_sqlite:
            with closing(self.engine.raw_connection()) as raw:
                raw.execute(f"PRAGMA busy_timeout = {READERS}")
                try:
                    busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                finally:
                    raw.execute(f"PRAGMA busy_timeout = {int(LOCK_TIMEOUT_SECONDS * 1000)}")
            return not busy
        with _database_errors(NO_SPACE), self.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.execute(text("VACUUM batches, plans, erasures"))
        return True

    def check_writable(self) -> None:
        """Write a little to the database; a `Problem` where that fails or space runs out."""
        if self.is_sqlite:  # which does not write a value that is there already
            try:
                with tempfile.TemporaryFile(dir=self.folder, buffering=0) as file:
                    file.write(bytes(4096))
                free = shutil.disk_usage(self.folder).free
            except OSError as problem:
                detail = f"the monitor's folder cannot be written to ({problem.strerror})"
                raise ApiProblem(503, "folder-unavailable", detail) from None
            if free < LEAST_SPACE:
                raise disk_full(NO_SPACE)
        with self.write() as connection:
            connection.execute(update(installation).values(schema=installation.c.schema))

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def open_store(data: str | Path, database: str | None = None) -> Store:
    """Open the monitor's database, creating it where it is new.

    Args:
        data: the folder of the database; with PostgreSQL nothing is kept there.
        database: `postgresql://...`, or None for SQLite in the folder.
    """
    folder = Path(data)
    if database is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FileError(f"{data}: cannot be used as the monitor's folder ({problem.strerror})") from None
    url = _address(database) if database else f"sqlite:///{(folder / FILE).absolute()}"
    engine = _engine(url)
    with _open_errors(url), _begin_write(engine) as connection:  # many processes may do this at once
        create_tables(connection, str(data) if database is None else url.split("@")[-1])
        secret = connection.execute(select(installation.c.id_key)).scalar_one()
    return Store(engine, folder, bytes(secret))


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
            # SQLite itself begins transactions, not its driver (`isolation_level`).
            options = {"timeout": LOCK_TIMEOUT_SECONDS, "isolation_level": None}
            engine = create_engine(url, connect_args=options, **hidden)
            event.listen(engine, "connect", _on_sqlite_connect)
            return engine
        return create_engine(
            url, pool_pre_ping=True, pool_size=10, connect_args={"connect_timeout": 10}, **hidden
        )
    except (ArgumentError, NoSuchModuleError) as problem:
        raise InputError(f"--database: cannot be understood ({problem})") from None


def _on_sqlite_connect(connection: Any, _: Any) -> None:
    # FULL: a commit is on the disk, not only in the operating system's cache, before it is acknowledged.
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


@contextmanager
def _begin_write(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # A writer takes its turn at once: one that reads first and writes later can be refused in between.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def _open_errors(url: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as problem:
        line = str(problem.orig).strip().splitlines()[0]
        raise FileError(f"the database {url.split('@')[-1]} cannot be opened ({line})") from None


@contextmanager
def _database_errors(no_space: str) -> Iterator[None]:
    """A full disk and a lost database become problems that callers can read; the rest is ours."""
    try:
        yield
    except DBAPIError as problem:
        reason = str(problem.orig).lower()
        if any(word in reason for word in _FULL):
            raise disk_full(no_space) from None
        if problem.connection_invalidated or _is_unavailable(problem):
            raise ApiProblem(
                503, "database-unavailable", "the database cannot be reached; try again"
            ) from None
        raise


#: What a full disk means for those who read, and for those who write.
NO_SPACE = "there is no space left on the monitor's disk; free some and try again"
NOT_ACCEPTED = "there is no space left to keep the rows; nothing was accepted, send it again later"


def disk_full(detail: str) -> ApiProblem:
    """507: the disk is full."""
    return ApiProblem(507, "disk-full", detail)


def _is_unavailable(problem: DBAPIError) -> bool:
    name = type(problem.orig).__name__
    message = str(problem.orig).lower()
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
        word in message for word in gone
    )
