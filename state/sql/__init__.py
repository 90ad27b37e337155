"""The store in SQL: SQLite for one host, PostgreSQL for several. The only files that know SQLAlchemy."""
