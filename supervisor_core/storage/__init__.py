"""The ledger: engine, the single writer, `step()`, tables, migrations and the outbox.

Rows of one subject (jobs, alerts, approvals) live with that subject.
"""
