"""From any released database to this one, by Alembic; a newer one is refused with one line."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, text

from shiftgauge.errors import FileError

HERE = Path(__file__).parent / "migrations"
#: Held by the one process that migrates a PostgreSQL database ("shiftgauge" as a number).
LOCK = 0x6C61_6265_6C66


def bring_up_to_date(engine: Engine) -> None:
    """Create the tables, or run the migrations that are missing; many processes may call this at once."""
    with engine.connect() as connection:
        connection = connection.execution_options(shiftgauge_write=True)
        with connection.begin():
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            _migrate(connection)


def _migrate(connection: Connection) -> None:
    from alembic.runtime.environment import EnvironmentContext
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(HERE))
    held = MigrationContext.configure(connection).get_current_heads()
    known = {script.revision for script in scripts.walk_revisions()}
    if any(head not in known for head in held):
        raise FileError(
            f"this database was written by a newer shiftgauge (schema {', '.join(held)}); "
            "update shiftgauge, or use another folder"
        )
    if set(held) == set(scripts.get_heads()):
        return
    from alembic.config import Config

    with EnvironmentContext(Config(), scripts, fn=lambda rev, _: scripts._upgrade_revs("head", rev)) as env:
        env.configure(connection=connection)
        env.run_migrations()
