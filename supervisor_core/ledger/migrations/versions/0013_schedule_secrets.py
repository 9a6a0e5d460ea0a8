"""The secret that the command ids of a schedule are made with."""

import secrets

import sqlalchemy as sa
from alembic import op

from supervisor_core.ledger.migrations.making import add_column

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column, and a secret for each schedule that is there already."""
    add_column("schedules_t", sa.Column("secret", sa.String(64)))
    schedules = sa.table("schedules_t", sa.column("schedule_id"), sa.column("secret"))
    bare = sa.select(schedules.c.schedule_id).where(schedules.c.secret.is_(None))
    for schedule_id in op.get_bind().execute(bare).scalars().all():
        mine = schedules.update().where(schedules.c.schedule_id == schedule_id)
        op.get_bind().execute(mine.values(secret=secrets.token_hex(32)))
