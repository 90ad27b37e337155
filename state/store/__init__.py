"""The store: its ports, what it checks before it writes, and its implementations."""
