"""Alembic environment: runs migrations on the given connection, in its transaction."""

from __future__ import annotations

from alembic import context

from gpuctl_usage.store.database_tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
