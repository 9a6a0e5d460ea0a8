"""Conditions of workers and of their host, how they changed, what people were told of it, and what keeps that quiet."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import LongText, RowId, UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the four tables."""
    _conditions_and_flips()
    _alerts()
    _suppressions()


def _conditions_and_flips() -> None:
    create_table(
        "conditions_t",
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("target_type", sa.String(16), nullable=False),
        sa.Column("target_id", sa.String(64), nullable=False),
        sa.Column("condition", sa.String(32), nullable=False),
        sa.Column("reason", LongText, nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("flip_id", RowId, nullable=False),
        sa.PrimaryKeyConstraint("supervisor_id", "target_type", "target_id", name="pk_conditions_t"),
        **_MYSQL,
    )
    create_table(
        "flips_t",
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("flip_id", RowId, nullable=False, autoincrement=False),
        sa.Column("target_type", sa.String(16), nullable=False),
        sa.Column("target_id", sa.String(64), nullable=False),
        sa.Column("old", sa.String(32), nullable=False),
        sa.Column("new", sa.String(32), nullable=False),
        sa.Column("reason", LongText, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("seen_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("supervisor_id", "flip_id", name="pk_flips_t"),
        **_MYSQL,
    )
    create_index("ix_flips_t_target_type_target_id_flip_id", "flips_t", ["target_type", "target_id", "flip_id"])
    create_index("ix_flips_t_at", "flips_t", ["at"])


def _alerts() -> None:
    create_table(
        "alerts_t",
        sa.Column("alert_id", sa.String(32), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("target_type", sa.String(16), nullable=False),
        sa.Column("target_id", sa.String(64), nullable=False),
        sa.Column("condition", sa.String(32), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", LongText, nullable=False),
        sa.Column("opened_at", UtcDateTime, nullable=False),
        sa.Column("opened_flip", RowId, nullable=False),
        sa.Column("occurrences", sa.Integer, nullable=False),
        sa.Column("held_until", UtcDateTime),
        sa.Column("held_why", sa.String(32)),
        sa.Column("cleared_at", UtcDateTime),
        sa.Column("closed_at", UtcDateTime),
        sa.Column("closed_flip", RowId),
        sa.Column("acknowledged_by", sa.String(128)),
        sa.Column("acknowledged_name", sa.String(255)),
        sa.Column("acknowledged_at", UtcDateTime),
        sa.Column("told", sa.String(32)),
        sa.Column("told_occurrence", sa.Integer, nullable=False),
        sa.Column("told_at", UtcDateTime),
        sa.Column("reminders", sa.Integer, nullable=False),
        sa.Column("decided", sa.String(32), nullable=False),
        sa.Column("due_at", UtcDateTime),
        sa.Column("evidence_json", LongText),
        sa.Column("parent_id", sa.String(32)),
        sa.PrimaryKeyConstraint("alert_id", name="pk_alerts_t"),
        **_MYSQL,
    )
    create_index("ix_alerts_t_state_due_at", "alerts_t", ["state", "due_at"])
    create_index("ix_alerts_t_target_type_target_id_state", "alerts_t", ["target_type", "target_id", "state"])
    create_index("ix_alerts_t_opened_at", "alerts_t", ["opened_at"])
    create_index("ix_alerts_t_parent_id", "alerts_t", ["parent_id"])


def _suppressions() -> None:
    create_table(
        "suppressions_t",
        sa.Column("task_id", sa.String(128), nullable=False),
        sa.Column("target_type", sa.String(16), nullable=False),
        sa.Column("target_id", sa.String(64), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("until", UtcDateTime, nullable=False),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("by_id", sa.String(128), nullable=False),
        sa.Column("by_name", sa.String(255), nullable=False),
        sa.Column("reason", LongText, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "target_type", "target_id", name="pk_suppressions_t"),
        **_MYSQL,
    )
    create_index("ix_suppressions_t_until", "suppressions_t", ["until"])
    create_index(
        "ix_suppressions_t_target_type_target_id_until", "suppressions_t", ["target_type", "target_id", "until"]
    )
