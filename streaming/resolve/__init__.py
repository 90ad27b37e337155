"""Reads from both clusters what a resume offset is found by."""
