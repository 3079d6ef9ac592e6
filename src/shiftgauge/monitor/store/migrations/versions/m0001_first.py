"""The first tables."""

from secrets import token_bytes

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create them, those that others point to first."""
    _jobs()
    _models()
    _tokens()
    _alerts()
    _erasures()
    _files()
    _secrets()
    _keys()
    _specs()
    _versions()
    _batches()
    _outbox()
    _sources()
    _windows()
    _plans()
    _revisions()
    _reports()


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", NUMBER, nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("wanted", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease", sa.BigInteger(), nullable=True),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("kind", "subject"),
    )
    op.create_index("jobs_by_due", "jobs", ["due"], unique=False)


def _models() -> None:
    op.create_table(
        "models",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("last_row", sa.BigInteger(), nullable=True),
        sa.Column("forgotten", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("segment", sa.Text(), nullable=True),
        sa.Column("limit", sa.Float(), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("window", sa.Text(), nullable=True),
        sa.Column("fired", sa.BigInteger(), nullable=False),
        sa.Column("resolved", sa.BigInteger(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("confirmed", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("alerts_by_model", "alerts", ["model_id", "resolved"], unique=False)


def _erasures() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("row_keys", sa.LargeBinary(), nullable=True),
        sa.Column("label_keys", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("erasures_by_seq", "erasures", ["model_id", "seq"], unique=False)


def _files() -> None:
    op.create_table(
        "files",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("removed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.PrimaryKeyConstraint("name"),
    )


def _secrets() -> None:
    table = op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.bulk_insert(table, [{"name": "ids", "value": token_bytes(16)}])


def _keys() -> None:
    op.create_table(
        "keys",
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.UniqueConstraint("model_id", "key"),
    )
    op.create_index("keys_by_age", "keys", ["created"], unique=False)


def _specs() -> None:
    op.create_table(
        "specs",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("specs_by_model", "specs", ["model_id", "since"], unique=False)


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("k", sa.Integer(), nullable=True),
        sa.Column("classes", sa.Text(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("source_id", NUMBER, nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("model_id", "name"),
    )


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("version_id", NUMBER, nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("low", sa.BigInteger(), nullable=True),
        sa.Column("high", sa.BigInteger(), nullable=True),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("object", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("batches_by_seq", "batches", ["model_id", "kind", "seq"], unique=False)
    op.create_index("batches_by_time", "batches", ["version_id", "low", "high"], unique=False)


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("alert_id", NUMBER, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("delivered", sa.BigInteger(), nullable=True),
        sa.Column("given_up", sa.Boolean(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["alert_id"],
            ["alerts.id"],
        ),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )


def _sources() -> None:
    op.create_table(
        "sources",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("version_id", NUMBER, nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )


def _windows() -> None:
    op.create_table(
        "windows",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("model_id", NUMBER, nullable=False),
        sa.Column("version_id", NUMBER, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("low", sa.BigInteger(), nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["models.id"],
        ),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("model_id", "name"),
    )
    op.create_index("windows_by_time", "windows", ["model_id", "low"], unique=False)


def _plans() -> None:
    op.create_table(
        "plans",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("window_id", NUMBER, nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Integer(), nullable=False),
        sa.Column("margin", sa.Float(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["window_id"],
            ["windows.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("window_id"),
    )


def _revisions() -> None:
    op.create_table(
        "revisions",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("window_id", NUMBER, nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("source_id", NUMBER, nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("method", sa.Text(), nullable=True),
        sa.Column("error", sa.Float(), nullable=True),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("level", sa.Float(), nullable=True),
        sa.Column("sampling", sa.Float(), nullable=True),
        sa.Column("band_low", sa.Float(), nullable=True),
        sa.Column("band_high", sa.Float(), nullable=True),
        sa.Column("adaptive_low", sa.Float(), nullable=True),
        sa.Column("adaptive_high", sa.Float(), nullable=True),
        sa.Column("adaptive_level", sa.Float(), nullable=True),
        sa.Column("shift", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("realised", sa.Float(), nullable=True),
        sa.Column("realised_low", sa.Float(), nullable=True),
        sa.Column("realised_high", sa.Float(), nullable=True),
        sa.Column("realised_kind", sa.Text(), nullable=True),
        sa.Column("labels", sa.BigInteger(), nullable=False),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("segments", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["window_id"],
            ["windows.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("window_id", "revision"),
    )


def _reports() -> None:
    op.create_table(
        "reports",
        sa.Column("revision_id", NUMBER, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision_id"],
            ["revisions.id"],
        ),
        sa.PrimaryKeyConstraint("revision_id"),
    )
