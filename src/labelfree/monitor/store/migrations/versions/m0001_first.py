"""The first tables."""

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create them."""
    from labelfree.monitor.store.schema import metadata

    metadata.create_all(op.get_bind())
