"""Versions of the store's schema, applied by ``state.sql.migrate``."""
