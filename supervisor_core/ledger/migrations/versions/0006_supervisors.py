"""Supervisors with the state of their life, teams, and who is or was in them."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import LongText, UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the tables."""
    create_table(
        "supervisors_t",
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("life", sa.String(32), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("heartbeat_seconds", sa.Double, nullable=False),
        sa.Column("hostname", sa.String(255), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("changed_at", UtcDateTime, nullable=False),
        sa.Column("last_heartbeat_at", UtcDateTime),
        sa.Column("reason", sa.String(255)),
        sa.PrimaryKeyConstraint("supervisor_id", name="pk_supervisors_t"),
        **_MYSQL,
    )
    create_table(
        "teams_t",
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", LongText),
        sa.Column("objective", LongText),
        sa.Column("config_json", LongText, nullable=False),
        sa.Column("configured", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.Column("ended_at", UtcDateTime),
        sa.PrimaryKeyConstraint("team_id", name="pk_teams_t"),
        sa.UniqueConstraint("supervisor_id", "name", name="uq_teams_t_supervisor_id_name"),
        **_MYSQL,
    )
    create_table(
        "team_members_t",
        sa.Column("member_id", sa.String(36), nullable=False),
        sa.Column("team_id", sa.String(36), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("agent_id", sa.String(64), nullable=False),
        sa.Column("active_agent_id", sa.String(64)),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("joined_at", UtcDateTime, nullable=False),
        sa.Column("left_at", UtcDateTime),
        sa.PrimaryKeyConstraint("member_id", name="pk_team_members_t"),
        sa.UniqueConstraint("supervisor_id", "active_agent_id", name="uq_team_members_t_supervisor_id_active_agent_id"),
        **_MYSQL,
    )
    create_index("ix_team_members_t_team_id", "team_members_t", ["team_id"])
