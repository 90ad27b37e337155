"""Schemas behind the ids in records: what an id means on each cluster."""
