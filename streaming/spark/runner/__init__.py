"""The process that hosts queries."""
