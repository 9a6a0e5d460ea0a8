"""What a handler says it is doing; and a number for each step that a program from before the numbers takes."""

import sqlalchemy as sa
from alembic import op

from supervisor_core.ledger.columns import LongText
from supervisor_core.ledger.migrations.making import add_column

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# A daemon from before 0004 that still runs leaves the number as it is when it moves a job, which would then never be
# forwarded again. Ledgers alone need it, and they are SQLite. It looks at the state, because such a program changes a
# job by nothing else, and because forwarding may write a row with the number that it has already.
_NUMBER_THE_STEP = """
CREATE TRIGGER IF NOT EXISTS jobs_t_changed AFTER UPDATE OF state ON jobs_t
WHEN NEW.changed = OLD.changed AND NEW.state <> OLD.state
BEGIN
    UPDATE jobs_t SET changed = (SELECT MAX(changed) + 1 FROM jobs_t) WHERE job_id = NEW.job_id;
END
"""


def upgrade() -> None:
    """Make the column and the trigger."""
    add_column("jobs_t", sa.Column("progress_json", LongText))
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_NUMBER_THE_STEP)
