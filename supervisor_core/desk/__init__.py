"""What people are shown and asked: approvals, alerts, suppressions, schedules, the outbox's rows."""
