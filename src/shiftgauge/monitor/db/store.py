"""The database (SQLite or PostgreSQL), the folder of files beside it, and transactions on both."""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, delete, event, insert, select, text, update
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from shiftgauge.errors import FileError, InputError
from shiftgauge.monitor.db.schema import create_tables, files, installation
from shiftgauge.monitor.periods import HOUR, now_us
from shiftgauge.monitor.problems import ApiProblem

_NAME = re.compile(r"[a-z]+/[0-9]+/[0-9a-f]{32}\.[a-z]+")


class FileReplaced(Exception):  # noqa: N818 (not an error: whoever reads begins again)
    """A file that a batch named when the transaction began was replaced or erased since."""


@dataclass(frozen=True)
class Objects:
    """A folder that all processes see.

    >>> import tempfile
    >>> objects = Objects(Path(tempfile.mkdtemp()))
    >>> name = objects.put("sources", 1, "npz", b"abc")
    >>> objects.path(name).read_bytes()
    b'abc'
    """

    folder: Path

    def put(self, room: str, owner: int, ending: str, content: bytes) -> str:
        """Keep these bytes; durable when it returns."""
        name = self.new_name(room, owner, ending)
        self.write(name, content)
        return name

    @staticmethod
    def new_name(room: str, owner: int, ending: str) -> str:
        """A name that no object has. It is ours, so that nobody's name becomes a path."""
        return f"{room}/{owner}/{uuid.uuid4().hex}.{ending}"

    def write(self, name: str, content: bytes) -> None:
        """Keep these bytes under a new name; durable when it returns."""
        file = self.path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        try:
            with part.open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)
        _sync_folder(file.parent)

    def path(self, name: str) -> Path:
        """Where an object lies."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"not an object's name: {name!r}")
        return self.folder / name

    def drop(self, name: str) -> None:
        """Delete an object, whole or half written, if it is still there; durable when it returns."""
        file = self.path(name)
        for path in (file, file.with_suffix(".part")):
            path.unlink(missing_ok=True)
        if file.parent.is_dir():
            _sync_folder(file.parent)

    def names(self) -> Iterator[tuple[str, float]]:
        """Every object and part of one, with the time it was written (seconds since 1970)."""
        for file in self.folder.glob("*/*/*"):
            try:
                yield file.relative_to(self.folder).as_posix(), file.stat().st_mtime
            except FileNotFoundError:
                continue


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


FILE = "monitor.sqlite"
#: How long a writer waits for another one, in seconds.
LOCK_TIMEOUT_SECONDS = 30
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
        with _database_errors(NO_SPACE), self.engine.connect() as connection, connection.begin():
            yield connection

    def read_rows(self, work: Callable[[Connection], T]) -> T:
        """The result of `work` in a transaction that reads; begun again if a file was replaced meanwhile."""
        for _ in range(TRIES):
            try:
                with self.read() as connection:
                    return work(connection)
            except FileReplaced as problem:
                missing = problem
        raise FileError(f"{missing}: this file of the monitor's folder is missing")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes; durable when it returns, or nothing of it."""
        with _database_errors(NOT_ACCEPTED), self.engine.connect() as connection:
            connection = connection.execution_options(shiftgauge_write=True)
            with connection.begin():
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
        options = {"isolation_level": "AUTOCOMMIT", "shiftgauge_write": True}
        with _database_errors(NO_SPACE), self.engine.connect() as connection:
            connection.execution_options(**options).execute(text("VACUUM batches, plans, erasures"))
        return True

    def check_writable(self) -> None:
        """Write a little to the database and to the folder; a `Problem` where that fails or space runs out."""
        try:
            with _database_errors(NO_SPACE):
                self.objects.drop(self.objects.put("checks", 0, "tmp", bytes(4096)))
                free = shutil.disk_usage(self.objects.folder).free
        except OSError as problem:
            detail = f"the monitor's folder cannot be written to ({problem.strerror})"
            raise ApiProblem(503, "folder-unavailable", detail) from None
        if free < LEAST_SPACE:
            raise disk_full(NO_SPACE)
        with self.write() as connection:  # the same value again is written all the same
            connection.execute(update(installation).values(schema=installation.c.schema))

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def open_store(data: str | Path, database: str | None = None) -> Store:
    """Open the monitor's database and the folder `data`, creating both where they are new.

    Args:
        data: the folder of the database and the files; with PostgreSQL of the files only.
        database: `postgresql://...`, or None for SQLite in the folder.
    """
    folder = Path(data)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{data}: cannot be used as the monitor's folder ({problem.strerror})") from None
    url = _address(database) if database else f"sqlite:///{(folder / FILE).absolute()}"
    engine = _engine(url)
    with _open_errors(url), engine.connect() as connection:
        connection = connection.execution_options(shiftgauge_write=True)
        with connection.begin():  # many processes may do this at once
            create_tables(connection, str(data) if database is None else url.split("@")[-1])
            secret = connection.execute(select(installation.c.id_key)).scalar_one()
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
            engine = create_engine(
                url, connect_args={"timeout": LOCK_TIMEOUT_SECONDS, "isolation_level": None}, **hidden
            )
            event.listen(engine, "connect", _on_sqlite_connect)
        else:
            engine = create_engine(
                url, pool_pre_ping=True, pool_size=10, connect_args={"connect_timeout": 10}, **hidden
            )
        event.listen(engine, "begin", _on_begin)
        return engine
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


def _on_begin(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        # A writer takes its turn at once: one that reads first and writes later can be refused in between.
        write = connection.get_execution_options().get("shiftgauge_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
    elif not connection.get_execution_options().get("shiftgauge_write"):
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))


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
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise disk_full(no_space) from None
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


#: A file that was begun so long ago and that no batch names was left behind by a crash.
ABANDONED = HOUR


def write_file(store: Store, model_id: int, content: bytes) -> str:
    """Write a Parquet file that no batch names yet."""
    name = store.objects.new_name("batches", model_id, "parquet")
    with store.write() as connection:
        values = {"name": name, "model_id": model_id, "created": now_us(), "removed": False}
        connection.execute(insert(files).values(**values))
    try:
        store.objects.write(name, content)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(NO_SPACE) from None
        raise
    return name


def claim_file(connection: Connection, name: str) -> bool:
    """A batch names the file from this transaction on; False if it was cancelled meanwhile."""
    written = delete(files).where(files.c.name == name, files.c.removed.is_(False))
    return connection.execute(written).rowcount == 1


def cancel_file(connection: Connection, name: str) -> None:
    """No batch will name this file."""
    connection.execute(update(files).where(files.c.name == name).values(removed=True))


def cancel_files(connection: Connection, model_id: int) -> None:
    """Files that others are writing for this model come too late: they hold what is erased in this transaction."""
    connection.execute(update(files).where(files.c.model_id == model_id).values(removed=True))


def mark_for_removal(connection: Connection, model_id: int, names: Iterable[str | None]) -> None:
    """Files that no batch names from this transaction on."""
    rows = [
        {"name": name, "model_id": model_id, "created": now_us(), "removed": True} for name in names if name
    ]
    if rows:
        connection.execute(insert(files), rows)


def remove_files(store: Store) -> None:
    """Remove the files that were given up, or left behind by a crash."""
    old = files.c.created < now_us() - ABANDONED
    with store.read() as connection:
        if connection.execute(select(files.c.name).where(files.c.removed | old)).first() is None:
            return
    with store.write() as connection:  # whoever is still writing one cannot name it any more
        connection.execute(update(files).where(old).values(removed=True))
        names = connection.execute(select(files.c.name).where(files.c.removed)).scalars().all()
    for name in names:
        store.objects.drop(name)
    with store.write() as connection:
        connection.execute(delete(files).where(files.c.name.in_(names)))
