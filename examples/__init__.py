"""Pipelines that show how a query is written for Tideover."""
