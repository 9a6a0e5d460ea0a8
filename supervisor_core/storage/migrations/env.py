"""Runs the migrations on the connection that `schema.upgrade` holds, and nowhere else."""

from alembic import context

from supervisor_core.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
