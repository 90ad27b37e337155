"""Asking both clusters for what a resume offset is found by."""
