"""Queries of applications without anything of Tideover's in them, started and stopped by their own commands."""
