"""The state machine of an operation."""
