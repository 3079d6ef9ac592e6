"""The tables.

Times are whole microseconds since 1970 (UTC). `seq` counts what was ever committed to a model, in order: a
revision that says `seq = 17` was made from what commits 1 to 17 brought. Batches are never changed: rows are
compacted into larger batches, or erased, by a new batch that replaces old ones.
"""

from __future__ import annotations

import hashlib
from secrets import token_bytes
from typing import Any, get_args

from pydantic import BaseModel
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)

from shiftgauge.errors import FileError
from shiftgauge.monitor.settings import Settings

metadata = MetaData()
#: The advisory lock of PostgreSQL while tables are created.
LOCK = 0x7368_6966_7467
#: SQLite numbers rows only in a column of type INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", Id, primary_key=True)


def _to(table: str, *, name: str | None = None, nullable: bool = False) -> Column[int]:
    return Column(name or f"{table[:-1]}_id", Id, ForeignKey(f"{table}.id"), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


models = Table(
    "models",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    _time("created"),
    Column("settings", Text, nullable=False),
    Column("seq", BigInteger, nullable=False, default=0),
    _time("last_row", nullable=True),  # when the last row arrived
    _time("erased_before", nullable=True),  # rows before this were erased, and are refused
)
specs = Table(  # which window length holds for rows from when on
    "specs",
    metadata,
    _id(),
    _to("models"),
    _time("since"),
    Column("spec", Text, nullable=False),
    Index("specs_by_model", "model_id", "since"),
)
versions = Table(
    "versions",
    metadata,
    _id(),
    _to("models"),
    Column("name", Text, nullable=False),
    _time("created"),
    Column("kind", Text),  # logits or probs, as the first rows came
    Column("k", Integer),
    Column("classes", Text),  # JSON list of names, or null
    Column("rows", BigInteger, nullable=False, default=0),  # ever accepted; numbers the rows
    Column("source_id", Id),  # the newest source
    UniqueConstraint("model_id", "name"),
)
sources = Table(
    "sources",
    metadata,
    _id(),
    _to("versions"),
    _time("created"),
    Column("sha256", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("error", Float, nullable=False),
    Column("ending", Text, nullable=False),  # npz, parquet or arrow
    Column("payload", LargeBinary, nullable=False),  # the file
)
batches = Table(
    "batches",
    metadata,
    _id(),
    _to("models"),
    _to("versions", nullable=True),  # labels have none
    Column("kind", Text, nullable=False),  # rows or labels
    Column("seq", BigInteger, nullable=False),  # of the last commit in it
    Column("rows", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),  # numbers of the first and last row within the version
    Column("last", BigInteger, nullable=False),
    _time("low"),  # of the rows' own times; of labels, when they were received
    _time("high"),
    Column("compacted", Boolean, nullable=False),
    # Arrow streams. Hashes and times (of labels, everything) lie before the rest, so that they are read alone.
    Column("key_columns", LargeBinary, nullable=False),
    Column("payload", LargeBinary),
    Index("batches_by_seq", "model_id", "kind", "seq"),
    Index("batches_by_time", "version_id", "low", "high"),
    sqlite_autoincrement=True,  # the number of a replaced batch is never given again
)
erasures = Table(  # erased ids, as keyed hashes, for a day: every process drops them from memory; they may come again
    "erasures",
    metadata,
    _id(),
    _to("models"),
    Column("seq", BigInteger, nullable=False),
    _time("created"),
    Column("row_keys", LargeBinary),  # of rows and their labels; null when the day is over
    Column("label_keys", LargeBinary),  # of labels without a row
    Index("erasures_by_seq", "model_id", "seq"),
)
installation = Table(  # one row
    "installation",
    metadata,
    Column("schema", Text, nullable=False),  # `SCHEMA` of the version that created the tables
    Column("id_key", LargeBinary, nullable=False),  # the key of the hashes of ids
)
keys = Table(  # Idempotency-Key
    "keys",
    metadata,
    _to("models"),
    Column("key", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("response", Text, nullable=False),
    _time("created"),
    UniqueConstraint("model_id", "key"),
    Index("keys_by_age", "created"),
)
windows = Table(
    "windows",
    metadata,
    _id(),
    _to("models"),
    _to("versions"),
    Column("name", Text, nullable=False),  # 2026-03-05.v1
    Column("spec", Text, nullable=False),
    Column("start", BigInteger, nullable=False),  # a time, or a row number
    Column("end", BigInteger, nullable=False),
    _time("low"),  # times of its first and last row
    _time("high"),
    Column("rows", BigInteger, nullable=False, default=0),
    Column("seq", BigInteger, nullable=False, default=0),  # the last commit that brought it rows
    Column("state", Text, nullable=False, default="open"),
    Column("reason", Text),  # why it waits or failed
    Column("revision", Integer, nullable=False, default=0),  # the newest; 0 for none
    UniqueConstraint("model_id", "name"),
    Index("windows_by_time", "model_id", "low"),
)
revisions = Table(
    "revisions",
    metadata,
    _id(),
    _to("windows"),
    Column("revision", Integer, nullable=False),
    _time("created"),
    Column("cause", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("source_id", Id),
    Column("rows", BigInteger, nullable=False),
    Column("method", Text),
    *(
        Column(name, Float)
        for name in ("error", "low", "high", "level", "sampling", "scores_error", "scores_low", "scores_high")
    ),
    *(Column(name, Float) for name in ("adaptive_low", "adaptive_high", "adaptive_level")),
    Column("shift", Text),
    Column("status", Text),
    *(Column(name, Float) for name in ("observed", "observed_low", "observed_high")),
    Column("observed_kind", Text),
    Column("labels", BigInteger, nullable=False, default=0),
    Column("warnings", Text, nullable=False, default="[]"),
    Column("segments", Text, nullable=False, default="[]"),
    Column("metrics", Text, nullable=False, default="[]"),
    Column("details", Text, nullable=False, default="{}"),
    UniqueConstraint("window_id", "revision"),
)
reports = Table(  # the report's summary, compressed: beside the revisions, so that listing those stays quick
    "reports",
    metadata,
    Column("revision_id", Id, ForeignKey("revisions.id"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
plans = Table(  # which rows were requested, and how many rows the window had then
    "plans",
    metadata,
    _id(),
    _to("windows"),
    _time("created"),
    Column("rows", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    UniqueConstraint("window_id"),
)
jobs = Table(
    "jobs",
    metadata,
    _id(),
    Column("kind", Text, nullable=False),
    Column("subject", Id, nullable=False),  # the id of a window or model, by kind
    _time("due"),
    Column("wanted", BigInteger, nullable=False, default=1),  # how often it was enqueued since it began
    Column("cause", Text, nullable=False, default=""),
    Column("owner", Text),
    _time("lease", nullable=True),
    _time("updated"),  # when `due` or `lease` was set: later than now where the clock went back since
    Column("attempts", Integer, nullable=False, default=0),
    Column("problem", Text),
    UniqueConstraint("kind", "subject"),
    Index("jobs_by_due", "due"),
)
alerts = Table(
    "alerts",
    metadata,
    _id(),
    _to("models"),
    Column("version", Text),
    Column("rule", Text, nullable=False),
    Column("limit", Float),
    Column("value", Float),
    Column("message", Text, nullable=False),
    Column("window", Text),
    _time("fired"),
    _time("resolved", nullable=True),
    Column("resolution", Text),
    Column("confirmed", Boolean),  # null for rules that nothing can confirm
    _time("acknowledged", nullable=True),
    Column("acknowledged_by", Text),
    _time("muted_until", nullable=True),  # no messages before this
    Column("muted_by", Text),
    Column("suppressed", Text),  # the event whose message waits for the end of the mute
    Column("comment", Text),
    Column("comment_by", Text),
    Index("alerts_by_model", "model_id", "resolved"),
)
outbox = Table(
    "outbox",
    metadata,
    _id(),
    _to("models"),
    Column("alert_id", Id, ForeignKey("alerts.id"), nullable=False),
    Column("destination", Text),  # the name of a notification service; null for the webhook
    Column("event", Text, nullable=False),  # fired, confirmed or resolved
    Column("body", Text, nullable=False),
    _time("created"),
    Column("attempts", Integer, nullable=False, default=0),
    _time("due"),
    _time("delivered", nullable=True),
    Column("given_up", Boolean, nullable=False, default=False),
    Column("problem", Text),
)
audit = Table(  # who changed what, written in the transaction of the change
    "audit",
    metadata,
    _id(),
    _time("time"),
    Column("who", Text, nullable=False),  # the name of a token
    Column("action", Text, nullable=False),
    Column("model", Text),  # null for tokens
    Column("detail", Text, nullable=False),  # JSON, without ids of rows and without secrets
    Index("audit_by_model", "model", "id"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("model", Text),  # null for all
    _time("created"),
    _time("expires", nullable=True),
    _time("revoked", nullable=True),
)


#: Columns of the stored Arrow streams (see `db.rows`) and their types; segments follow as text. The first seven are
#: stored apart from the others: the id index, erasures and labels need no more.
ARROW_TYPES = {
    "key": ("uint64",),
    "content": ("uint32",),
    "time": ("int64",),
    "number": ("int64",),
    "seq": ("int64",),
    "label": ("string",),
    "received": ("int64",),
    "id": ("string",),
    "scores": ("float", "double"),  # of each class
    "prediction": ("int32",),
    "weight": ("double",),
    "error_probability": ("double",),
}
KEY_COLUMNS = tuple(ARROW_TYPES)[:7]


def _describe() -> str:
    """What is stored, as text: tables with columns, constraints and indexes; Arrow columns; names of settings."""
    lines = [f"arrow {ARROW_TYPES} {KEY_COLUMNS}", f"settings {_field_names(Settings)}"]
    for table in metadata.sorted_tables:
        for column in table.columns:
            flags = (
                column.nullable,
                column.primary_key,
                [key.target_fullname for key in column.foreign_keys],
            )
            lines.append(f"{table.name}.{column.name} {type(column.type).__name__} {flags}")
        for part in (*table.constraints, *table.indexes):
            names = [column.name for column in part.columns]  # type: ignore[attr-defined]
            lines.append(f"{table.name} {type(part).__name__} {names}")
    return "\n".join(sorted(lines))


def _field_names(record: type[BaseModel]) -> dict[str, Any]:
    """The names of a record's fields, with those of the records within it.

    Not the JSON schema: its text may change with pydantic, and an unchanged database must not be refused.
    """
    return {
        name: [_field_names(part) for part in _records(info.annotation)]
        for name, info in sorted(record.model_fields.items())
    }


def _records(annotation: Any) -> list[type[BaseModel]]:
    """The records that a type names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for part in get_args(annotation) for record in _records(part)]


#: The revision of all that is stored. Before the first release there is no migration: another revision is refused.
SCHEMA = f"0-{hashlib.sha256(_describe().encode()).hexdigest()[:12]}"


def create_tables(connection: Connection, where: str) -> None:
    """Create the tables in an empty database; refuse one that another version of shiftgauge has created."""
    if connection.dialect.name == "postgresql":  # one process at a time
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
    names = inspect(connection).get_table_names()
    if "models" not in names:
        metadata.create_all(connection)
        connection.execute(insert(installation).values(schema=SCHEMA, id_key=token_bytes(16)))
        return
    written = "unknown"
    if installation.name in names:
        written = connection.execute(select(installation.c.schema)).scalar_one()
    if written != SCHEMA:
        raise FileError(
            f"{where}: another version of shiftgauge wrote this database (tables {written}, this version needs "
            f"{SCHEMA}); run `shiftgauge monitor export` of that version, or use another folder"
        )
