"""A query's checkpoint: read, carried and fenced."""
