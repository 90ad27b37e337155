"""Spans of operations and their steps, for whoever collects traces."""
