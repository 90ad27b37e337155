"""How alembic runs the versions: on the connection and in the transaction that ``state.store.sql.migrate`` hands in."""

from alembic import context

from state.store.sql.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
