"""The command line: verbs, tables, questions. Everything below it decides and acts without a terminal."""

from orchestrator.cli.app import main

__all__ = ["main"]
