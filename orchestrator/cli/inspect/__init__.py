"""Verbs that change nothing."""
