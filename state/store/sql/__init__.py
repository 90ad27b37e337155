"""The store on PostgreSQL or SQLite."""
