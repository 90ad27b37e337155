"""The schema's versions."""
