"""Spans of operations and their steps, for a collector of traces."""
